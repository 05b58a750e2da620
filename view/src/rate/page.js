// `sheet` knows where pairs come from and where votes go. Its functions give the next state:
// { position, done, total, round, rounds, tie, text, left, right, undo, finished, more }.
const SIDES = ["left", "right"];
const KEYS = {
  1: () => play("left"), 2: () => play("right"),
  ArrowLeft: () => answer("left"), ArrowRight: () => answer("right"), ArrowDown: () => answer("same"),
  u: () => step(() => sheet.undo(now.position)), m: () => more(), " ": () => pause(),
};
let now = null;
let busy = false;
let shown = 0;
let sounds = {};
let heard = new Set();

const stop = () => {
  for (const side of SIDES) {
    sounds[side]?.pause();
    part(`play-${side}`).parentElement.classList.remove("playing");
  }
};
// A change to the other recording begins at its start.
const play = (side) => {
  const sound = sounds[side];
  if (busy || !now || now.finished || !sound) return;
  stop();
  sound.currentTime = 0;
  heard.add(side);
  part(`play-${side}`).parentElement.classList.add("playing");
  sound.play().catch((error) => told(error.message, true));
};
const pause = () => {
  const both = Object.values(sounds);
  const playing = both.find((sound) => !sound.paused);
  if (playing) return playing.pause();
  both.find((sound) => sound.currentTime > 0 && !sound.ended)?.play();
};

const show = async (state) => {
  stop();
  SIDES.forEach((side) => sounds[side] && URL.revokeObjectURL(sounds[side].src));
  now = state;
  heard = new Set();
  sounds = {};
  const round = now.rounds > 1 ? `, round ${now.round} of ${now.rounds}` : "";
  part("course").textContent = `${now.done} of ${now.total}${round}`;
  part("bar").value = now.total ? now.done / now.total : 1;
  part("test").hidden = now.finished;
  part("end").hidden = !now.finished;
  part("more").hidden = !now.more;
  part("ended").textContent = `Done: ${now.done} votes are stored.`;
  part("same").hidden = !now.tie;
  part("undo").disabled = !now.undo;
  if (now.finished) return sheet.finished?.();
  part("text").textContent = now.text;
  for (const side of SIDES) {
    const sound = new Audio(URL.createObjectURL(await sheet.sound(now[side])));
    sound.addEventListener("ended", stop);
    sounds[side] = sound;
  }
  shown = performance.now();
};
// The next pair is shown when the vote is stored.
const step = async (ask) => {
  if (busy || !now) return;
  busy = true;
  try {
    const state = await ask();
    told("");
    await show(state);
  } catch (error) {
    told(error.message, true);
  }
  busy = false;
};
const answer = (side) => {
  if (busy || !now || now.finished || (side === "same" && !now.tie)) return;
  if (heard.size < 2) return told("Listen to both first.", true);
  const seconds = Math.round((performance.now() - shown) / 100) / 10;
  step(() => sheet.vote({ position: now.position, answer: side, seconds }));
};
const more = () => now?.more && step(() => sheet.more(now.position));

document.addEventListener("keydown", (event) => {
  if (event.repeat || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.matches?.("input, textarea")) return;
  const key = KEYS[event.key];
  if (!key || !now) return;
  event.preventDefault();
  key();
});
for (const side of SIDES) {
  part(`play-${side}`).addEventListener("click", () => play(side));
  part(`prefer-${side}`).addEventListener("click", () => answer(side));
}
part("same").addEventListener("click", () => answer("same"));
part("undo").addEventListener("click", () => KEYS.u());
part("more").addEventListener("click", () => more());
