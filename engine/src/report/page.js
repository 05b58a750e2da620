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
  for (const more of document.querySelectorAll(".more")) {
    more.addEventListener("click", () => {
      more.parentElement.querySelector("table").classList.add("whole");
      more.remove();
    });
  }

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
