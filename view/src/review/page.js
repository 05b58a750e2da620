// The clips by their keys, and the order of the keys on the page.
const rows = new Map();
let order = [];
// The chosen clip: its key, its words, and whether its text has been edited.
let chosen = null;
let words = [];
const audio = new Audio();

const byPlace = (one, other) => rows.get(one).rank - rows.get(other).rank || rows.get(one).from - rows.get(other).from;
const time = (seconds) => `${Math.floor(seconds / 60)}:${(seconds % 60).toFixed(1).padStart(4, "0")}`;

const filled = (line, row) => {
  line.className = [row.action, row.is_new && "new", row.verdict && "verdict", row.key === chosen && "chosen"].filter(Boolean).join(" ");
  line.dataset.key = row.key;
  line.replaceChildren(made("strong", row.id), made("span", row.text || "(no text)"), made("small", row.verdict ?? row.why));
  return line;
};
const lineOf = (key) => part("clips").querySelector(`li[data-key="${key}"]`);
const list = () => part("clips").replaceChildren(...order.map((key) => filled(made("li"), rows.get(key))));

const take = ({ gone, rows: changed }) => {
  const structure = gone.length > 0 || changed.some((row) => !rows.has(row.key));
  const at = order.indexOf(chosen);
  gone.forEach((key) => rows.delete(key));
  changed.forEach((row) => rows.set(row.key, row));
  if (!structure) return changed.forEach((row) => lineOf(row.key) && filled(lineOf(row.key), row));
  order = [...rows.keys()].sort(byPlace);
  if (!rows.has(chosen)) chosen = order[Math.min(Math.max(at, 0), order.length - 1)] ?? null;
  list();
};

const moveCursor = () => {
  const share = audio.duration ? audio.currentTime / audio.duration : 0;
  part("cursor").style.left = `${100 * share}%`;
  [...part("words").children].forEach((node, at) => {
    const [from, to] = words[at];
    node.classList.toggle("lit", audio.currentTime >= from && audio.currentTime < to);
  });
  if (!audio.paused) requestAnimationFrame(moveCursor);
};
const seek = (seconds) => {
  audio.currentTime = Math.min(Math.max(seconds, 0), audio.duration || 0);
  moveCursor();
};

// Places can be named when the length is known.
const loaded = (url) => new Promise((done, failed) => {
  audio.onloadedmetadata = done;
  audio.onerror = () => failed(new Error("the browser cannot play this sound"));
  audio.src = url;
});

const show = async (key) => {
  chosen = key;
  const row = rows.get(key);
  part("clips").querySelector(".chosen")?.classList.remove("chosen");
  lineOf(key)?.classList.add("chosen");
  lineOf(key)?.scrollIntoView({ block: "nearest" });
  part("name").textContent = `${row.id}, ${time(row.start)} to ${time(row.start + row.seconds)}`;
  part("text").value = row.text;
  part("why").textContent = [row.why, row.verdict].filter(Boolean).join("; ");
  audio.pause();
  words = [];
  part("words").replaceChildren();
  document.body.dataset.ready = "";
  const sound = await (await ask(`/audio/${key}`)).blob();
  const spoken = await (await ask(`/words/${key}`)).json();
  if (chosen !== key) return;
  URL.revokeObjectURL(audio.src);
  words = spoken;
  await loaded(URL.createObjectURL(sound));
  if (chosen !== key) return;
  part("words").replaceChildren(...words.flatMap(([from, , word]) => {
    const node = made("span", word);
    node.addEventListener("click", () => seek(from));
    return [node, " "];
  }));
  moveCursor();
  const samples = await samplesOf(await sound.arrayBuffer());
  if (chosen !== key) return;
  draw(part("canvas"), samples);
  document.body.dataset.ready = key;
};
const choose = (key) => key && show(key).catch((error) => told(error.message, true));

// Corrections go one after the other. They are confirmed when the table is on the disk.
let last = Promise.resolve();
const correct = (wish, confirmation) => {
  last = last.then(async () => {
    try {
      const before = chosen;
      const changed = await (await ask("/correct", wish)).json();
      take(changed);
      told(`${confirmation}; corrections in the table: ${changed.corrections}`);
      const isOther = chosen !== before || changed.rows.some((row) => row.key === chosen);
      if (isOther) choose(chosen);
    } catch (error) {
      told(error.message, true);
    }
  });
};

const step = (by) => choose(order[order.indexOf(chosen) + by]);
const play = () => {
  if (!audio.paused) return audio.pause();
  return audio.play().then(moveCursor).catch((error) => told(error.message, true));
};
// To the beginning of the word before or behind.
const byWord = (by) => {
  const now = audio.currentTime;
  const starts = words.map(([from]) => from);
  const next = by > 0 ? starts.find((from) => from > now + 0.01) : starts.findLast((from) => from < now - 0.01);
  seek(next ?? (by > 0 ? audio.duration : 0));
};
const KEYS = {
  j: () => step(1),
  ArrowDown: () => step(1),
  k: () => step(-1),
  ArrowUp: () => step(-1),
  " ": play,
  r: () => { seek(0); if (audio.paused) play(); },
  ArrowRight: (event) => (event.shiftKey ? seek(audio.currentTime + 0.02) : byWord(1)),
  ArrowLeft: (event) => (event.shiftKey ? seek(audio.currentTime - 0.02) : byWord(-1)),
  e: () => part("text").focus(),
  d: () => correct({ action: "drop", key: chosen }, "saved"),
  s: () => correct({ action: "split", key: chosen, at: audio.currentTime }, "split"),
  m: () => correct({ action: "join", key: chosen }, "joined"),
  u: () => correct({ action: "undo" }, "undone"),
};

document.addEventListener("keydown", (event) => {
  const text = part("text");
  if (event.target === text) {
    if (event.key === "Escape") { text.value = rows.get(chosen).text; text.blur(); }
    if (event.key === "Enter") {
      event.preventDefault();
      correct({ action: "text", key: chosen, text: text.value }, "saved");
      text.blur();
    }
    return;
  }
  if (event.ctrlKey || event.altKey || event.metaKey || !KEYS[event.key]) return;
  event.preventDefault();
  if (chosen) KEYS[event.key](event);
});
part("clips").addEventListener("click", (event) => choose(event.target.closest("li")?.dataset.key));
part("picture").addEventListener("click", (event) => {
  const box = part("canvas").getBoundingClientRect();
  seek(((event.clientX - box.left) / box.width) * audio.duration);
});

const begin = async () => {
  const found = await (await ask("/clips")).json();
  found.rows.forEach((row) => rows.set(row.key, row));
  order = [...rows.keys()].sort(byPlace);
  list();
  const shown = order.length < found.all ? `the ${order.length} most doubtful of ${found.all}` : `${found.all}`;
  told(`${shown} clips of ${found.stage}; corrections in ${found.table}: ${found.corrections}`);
  await choose(order[0]);
};
begin().catch((error) => told(error.message, true));
