const data = JSON.parse(part("data").textContent);
let rater = "";
let trials = [];
let votes = [];
const place = () => `throstle ${data.id} ${rater}`;
// A page of a file may have no storage; then the votes are in the page only.
const keep = () => {
  try { localStorage.setItem(place(), JSON.stringify(votes)); } catch {}
};
const kept = () => {
  try { return JSON.parse(localStorage.getItem(place())) ?? []; } catch { return []; }
};
const state = () => {
  const done = votes.length;
  const base = {
    position: done, done, total: trials.length, round: 1, rounds: 1, tie: data.tie,
    undo: done > 0, finished: done >= trials.length, more: false,
  };
  const trial = trials[done];
  return trial ? { ...base, text: trial.text, left: trial.left, right: trial.right } : base;
};
const lines = () => {
  const head = { is: "votes", version: 1, stage: data.stage, rater };
  return [head, ...votes].map((line) => `${JSON.stringify(line)}\n`).join("");
};
const offer = () => {
  part("votes").value = lines();
  const save = part("save");
  URL.revokeObjectURL(save.href);
  save.href = URL.createObjectURL(new Blob([lines()], { type: "application/jsonl" }));
  save.download = `${rater}.jsonl`;
  part("result").hidden = false;
};
const sheet = {
  vote: async ({ answer, seconds }) => {
    const { pair, swapped, repeat } = trials[votes.length];
    votes.push({ is: "vote", pair, swapped, repeat, answer, seconds });
    keep();
    return state();
  },
  undo: async () => {
    votes.pop();
    keep();
    part("result").hidden = true;
    return state();
  },
  sound: async (name) => {
    const text = atob(data.sounds[name]);
    const bytes = Uint8Array.from(text, (letter) => letter.charCodeAt(0));
    return new Blob([bytes], { type: "audio/flac" });
  },
  finished: offer,
};
part("who").addEventListener("submit", (event) => {
  event.preventDefault();
  rater = part("name").value;
  const number = [...rater].reduce((sum, letter) => sum + letter.codePointAt(0), 0);
  trials = data.sheets[number % data.sheets.length];
  votes = kept();
  part("who").hidden = true;
  show(state()).catch((error) => told(error.message, true));
});
