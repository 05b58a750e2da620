const chosen = () => [...document.querySelectorAll("#voices input:checked")].map((box) => box.value);

const list = async () => {
  const { voices } = await (await ask("/v1/audio/voices")).json();
  for (const [at, voice] of voices.entries()) {
    const box = made("input");
    Object.assign(box, { type: "checkbox", value: voice.id, checked: at === 0 });
    const label = made("label");
    label.append(box, ` ${voice.name}`);
    part("voices").append(label);
  }
};

// The characters of `U+0033=2, U+002C=1`.
const named = (dropped) =>
  dropped.split(", ").map((one) => {
    const [code, count] = one.split("=");
    const character = String.fromCodePoint(parseInt(code.slice(2), 16));
    const name = /[\p{L}\p{N}\p{P}\p{S}]/u.test(character) ? character : code;
    return count === "1" ? name : `${name} (${count} times)`;
  });

const speak = async (voice, input, speed) => {
  const begin = performance.now();
  const on_unknown = part("report").checked ? "report" : null;
  const answer = await ask("/v1/audio/speech", { model: voice, voice, input, speed, on_unknown });
  const audio = made("audio");
  audio.controls = true;
  audio.src = URL.createObjectURL(await answer.blob());
  const seconds = ((performance.now() - begin) / 1000).toFixed(1);
  const row = made("li");
  row.append(made("strong", voice), made("span", ` at speed ${speed}, after ${seconds} s`, "note"));
  row.append(made("div", input, "sentence"));
  const dropped = answer.headers.get("Throstle-Dropped");
  if (dropped) row.append(made("p", `Left out: ${named(dropped).join(" ")}`, "dropped"));
  const note = answer.headers.get("Throstle-Note");
  if (note) row.append(made("p", note, "note"));
  row.append(audio);
  part("sounds-made").prepend(row);
  return audio;
};

part("speed").addEventListener("input", () => {
  part("rate").textContent = part("speed").value;
});
part("form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const [voices, speed] = [chosen(), Number(part("speed").value)];
  if (!voices.length) return told("Choose a voice.", true);
  part("speak").disabled = true;
  let first = null;
  try {
    for (const voice of voices) {
      told(`${voice} …`);
      const audio = await speak(voice, part("text").value, speed);
      first ??= audio;
    }
    told("");
    await first.play().catch(() => {});
  } catch (error) {
    told(error.message, true);
  }
  part("speak").disabled = false;
});
list().catch((error) => told(error.message, true));
