"use strict";
(() => {
  const root = document.documentElement;
  root.classList.add("live");

  // The theme: that of the system unless the reader wants another. Where nothing may be kept
  // between visits, as with files in some browsers, the choice holds for this visit.
  const themes = ["auto", "light", "dark"];
  const kept = {
    get() { try { return localStorage.getItem("throstle-theme"); } catch { return null; } },
    set(theme) { try { localStorage.setItem("throstle-theme", theme); } catch { /* this visit */ } },
  };
  const button = document.getElementById("theme");
  const wear = (theme) => {
    if (theme === "auto") delete root.dataset.theme;
    else root.dataset.theme = theme;
    button.textContent = `Theme: ${theme}`;
  };
  let theme = themes.includes(kept.get()) ? kept.get() : "auto";
  wear(theme);
  button.addEventListener("click", () => {
    theme = themes[(themes.indexOf(theme) + 1) % themes.length];
    wear(theme);
    kept.set(theme);
  });

  // Tables: a click on a heading sorts by it, a second one the other way round. Empty cells come
  // last either way.
  const order = (cell) => cell.dataset.order ?? cell.textContent.trim();
  const compare = (one, other) => {
    const numbers = [Number(one), Number(other)];
    if (!numbers.some(Number.isNaN)) return numbers[0] - numbers[1];
    return one.localeCompare(other, undefined, { numeric: true });
  };
  const sort = (heading) => {
    const table = heading.closest("table");
    const column = heading.cellIndex;
    const falling = heading.getAttribute("aria-sort") === "ascending";
    for (const other of table.tHead.rows[0].cells) {
      if (other.hasAttribute("aria-sort")) other.setAttribute("aria-sort", "none");
    }
    heading.setAttribute("aria-sort", falling ? "descending" : "ascending");
    const body = table.tBodies[0];
    const rows = [...body.rows].map((row) => ({ row, key: order(row.cells[column]) }));
    rows.sort((one, other) => {
      if (one.key === "" || other.key === "") return (one.key === "") - (other.key === "");
      return compare(one.key, other.key) * (falling ? -1 : 1);
    });
    const first = Number(table.dataset.first);
    rows.forEach(({ row }, at) => row.classList.toggle("later", at >= first));
    body.append(...rows.map(({ row }) => row));
  };
  for (const heading of document.querySelectorAll("table.sortable th[aria-sort] button")) {
    heading.addEventListener("click", () => sort(heading.parentElement));
  }
  for (const more of document.querySelectorAll(".table .more")) {
    more.addEventListener("click", () => {
      more.parentElement.querySelector("table").classList.add("whole");
      more.remove();
    });
  }

  // The list of clips: rows that the page does not have are made when they are shown. A row of the
  // data is the number of the clip, its id, its text, its speaker where there are several, and its
  // figures.
  const list = (block) => {
    const { columns, speakers, clips } = JSON.parse(block.querySelector("script").textContent);
    const [body] = block.querySelector("table").tBodies;
    const made = new Map([...body.rows].map((row) => [Number(row.dataset.at), row]));
    const figures = speakers ? 4 : 3;
    const cell = (row, text, kind, label) => {
      const made = row.insertCell();
      made.textContent = text;
      if (kind) made.className = kind;
      if (label) made.dataset.label = label;
      return made;
    };
    const make = (clip) => {
      const row = document.createElement("tr");
      cell(row, "", "listen");
      cell(row, "").append(Object.assign(document.createElement("code"), { textContent: clip[1] }));
      cell(row, clip[2], "prose");
      if (speakers) cell(row, clip[3], "", "Speaker");
      columns.forEach(([name, digits], at) => {
        const value = clip[figures + at];
        cell(row, value === null ? "" : value.toFixed(digits), "number", name);
      });
      made.set(clip[0], row);
      return row;
    };
    const first = Number(block.dataset.first);
    const status = block.querySelector("[role=status]");
    const more = block.querySelector(".more");
    let found = clips;
    let shown = first;
    const draw = () => {
      const rows = found.slice(0, shown).map((clip) => made.get(clip[0]) ?? make(clip));
      rows.forEach((row) => row.classList.remove("later"));
      body.replaceChildren(...rows);
      const count = clips.length.toLocaleString("en");
      const part = found.length === clips.length ? "" : `${found.length.toLocaleString("en")} of `;
      status.textContent = `${part}${count} ${clips.length === 1 ? "clip" : "clips"}`;
      more.hidden = found.length <= shown;
    };
    more.hidden = clips.length <= first;
    more.addEventListener("click", () => { shown += 200; draw(); });
    const searched = clips.map(() => null);
    const text = (clip, at) => {
      searched[at] ??= clip.slice(1, figures).join("\n").toLocaleLowerCase();
      return searched[at];
    };
    let wanted = () => true;
    let sorted = null;
    const select = () => {
      found = clips.filter((clip, at) => wanted(clip, at));
      if (sorted) found.sort(sorted);
      shown = first;
      draw();
    };
    block.querySelector("input").addEventListener("input", (event) => {
      const words = event.target.value.toLocaleLowerCase().split(/\s+/u).filter(Boolean);
      wanted = (clip, at) => words.every((word) => text(clip, at).includes(word));
      select();
    });
    const letters = new Intl.Collator(undefined, { numeric: true });
    for (const heading of block.querySelectorAll("th[aria-sort]")) {
      // The first column, of players, is no column of the data; the number of the clip is.
      const at = heading.cellIndex;
      heading.querySelector("button").addEventListener("click", () => {
        const sign = heading.getAttribute("aria-sort") === "ascending" ? -1 : 1;
        for (const other of block.querySelectorAll("th[aria-sort]")) other.setAttribute("aria-sort", "none");
        heading.setAttribute("aria-sort", sign === 1 ? "ascending" : "descending");
        const isEmpty = (value) => value === null || value === "";
        sorted = (one, other) => {
          const [a, b] = [one[at], other[at]];
          if (isEmpty(a) || isEmpty(b)) return isEmpty(a) - isEmpty(b);
          return sign * (at < figures ? letters.compare(a, b) : a - b);
        };
        select();
      });
    }
  };
  document.querySelectorAll(".clips").forEach(list);

  // Players: one sounds at a time.
  let sounding = null;
  const show = (player, sound) => {
    const share = sound.duration ? sound.currentTime / sound.duration : 0;
    player.style.setProperty("--played", `${(share * 100).toFixed(1)}%`);
  };
  const rewind = ({ player, sound }) => {
    sound.pause();
    sound.currentTime = 0;
    player.classList.remove("playing");
    show(player, sound);
  };
  const start = (player, sound, from) => {
    if (sounding && sounding.player !== player) rewind(sounding);
    sounding = { player, sound };
    const go = () => {
      if (from !== undefined) sound.currentTime = from * sound.duration;
      // To be cut off by the next one is no fault.
      sound.play().catch((error) => {
        if (error.name !== "AbortError") player.classList.add("broken");
      });
    };
    if (from === undefined || sound.readyState > 0) go();
    else {
      sound.addEventListener("loadedmetadata", go, { once: true });
      sound.load();
    }
  };
  for (const player of document.querySelectorAll(".player")) {
    const sound = document.getElementById(player.dataset.sound);
    const own = () => sounding !== null && sounding.player === player;
    player.querySelector("button").addEventListener("click", () => {
      if (own() && !sound.paused) sound.pause();
      else start(player, sound);
    });
    player.querySelector(".wave").addEventListener("click", (event) => {
      const box = event.currentTarget.getBoundingClientRect();
      start(player, sound, (event.clientX - box.left) / box.width);
    });
    sound.addEventListener("play", () => player.classList.toggle("playing", own()));
    sound.addEventListener("pause", () => player.classList.remove("playing"));
    sound.addEventListener("timeupdate", () => own() && show(player, sound));
    sound.addEventListener("ended", () => {
      sound.currentTime = 0;
      show(player, sound);
    });
    sound.addEventListener("error", () => {
      player.classList.add("broken");
      player.querySelector("button").title = "This browser cannot play it";
    });
  }
})();
