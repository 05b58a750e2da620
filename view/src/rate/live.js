const sheet = {
  vote: async (vote) => (await ask("/rate/vote", vote)).json(),
  undo: async (position) => (await ask("/rate/undo", { position })).json(),
  more: async (position) => (await ask("/rate/more", { position })).json(),
  sound: async (name) => (await ask(`/rate/sound/${name}`)).blob(),
};
ask("/rate/state").then((answer) => answer.json()).then(show)
  .catch((error) => told(error.message, true));
