// Search, keyboard and the source pane. No dependency, no network: shards are scripts that a page loads on demand.
"use strict";
const repobook = (() => {
  const base = document.documentElement.dataset.base;
  const shards = new Map();
  const waiting = new Map();
  let paths = null;
  const load = (name) =>
    waiting.get(name) ||
    waiting.set(name, new Promise((done) => {
      const script = document.createElement("script");
      script.src = `${base}search/${name}.js`;
      script.onload = script.onerror = () => done();
      document.head.append(script);
    })).get(name);
  const group = (word) => {
    const head = word.replace(/^[_~]+/, "").toLowerCase().slice(0, 2);
    return [...head].map((c) => (/[a-z0-9]/.test(c) ? c : "-")).join("") || "-";
  };
  const slug = (name) => "d-" + name.replace(/[^A-Za-z0-9_.~-]+/g, ".").replace(/^\.+|\.+$/g, "");
  const encode = (path) => path.split("/").map(encodeURIComponent).join("/");

  async function search(text, limit = 30) {
    const words = text.toLowerCase().split(/[\s.:]+/).filter(Boolean);
    if (!words.length || words[0].replace(/^[_~]+/, "").length < 2) return [];
    await Promise.all([load("paths"), load(group(words[0]))]);
    const rows = shards.get(group(words[0])) || [];
    const whole = words.join("");
    const found = [];
    for (const row of rows) {
      const name = row[0].toLowerCase();
      const full = row[3] ? row[3].toLowerCase() : name;
      if (!words.every((word) => full.includes(word))) continue;
      const flat = name.replace(/_/g, "");
      const rank = name === whole || flat === whole ? 0 : name.startsWith(words[0]) ? 1 : 2;
      found.push([rank, -row[4], row[0].length, row]);
    }
    found.sort((a, b) => a[0] - b[0] || a[1] - b[1] || a[2] - b[2]);
    return found.slice(0, limit).map(([, , , [name, kind, file, qualified, uses]]) => ({
      name: qualified || name, kind, path: paths[file], uses,
      href: `${base}${encode(paths[file])}_docs.html${kind === "file" ? "" : "#" + slug(qualified || name)}`,
    }));
  }

  function start() {
    const input = document.getElementById("q");
    const list = document.getElementById("found");
    let turn = 0;
    const show = async () => {
      const mine = ++turn;
      const begun = performance.now();
      const rows = await search(input.value);
      if (mine !== turn) return;
      list.replaceChildren(...rows.map((row, at) => {
        const item = document.createElement("li");
        const link = document.createElement("a");
        link.href = row.href;
        link.id = `r${at}`;
        const name = document.createElement("code");
        name.textContent = row.name;
        const place = document.createElement("small");
        place.textContent = ` ${row.kind} · ${row.path}`;
        link.append(name, place);
        item.append(link);
        return item;
      }));
      list.hidden = !input.value;
      if (input.value && !rows.length) list.textContent = input.value.length < 2 ? "two letters at least" : "nothing found";
      list.dataset.milliseconds = Math.round(performance.now() - begun);
    };
    input.addEventListener("input", show);
    const step = (by) => {
      const links = [...list.querySelectorAll("a")];
      const at = links.indexOf(document.activeElement) + by;
      (at < 0 ? input : links[Math.min(at, links.length - 1)] || input).focus();
    };
    document.addEventListener("keydown", (event) => {
      const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement.tagName);
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.key === "/" && !typing) { event.preventDefault(); input.focus(); }
      else if (event.key === "Escape") { input.value = ""; list.hidden = true; input.blur(); }
      else if (event.key === "ArrowDown" && !list.hidden) { event.preventDefault(); step(1); }
      else if (event.key === "ArrowUp" && !list.hidden) { event.preventDefault(); step(-1); }
      else if (event.key === "Enter" && document.activeElement === input) { const first = list.querySelector("a"); if (first) first.click(); }
      else if (event.key === "s" && !typing) split();
      else if (event.key === "d" && !typing) theme();
    });
    const root = document.documentElement;
    const keep = (key, value) => { try { localStorage.setItem(key, value); } catch { /* storage may be off */ } };
    const kept = (key) => { try { return localStorage.getItem(key); } catch { return null; } };
    function theme() {
      const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
      root.dataset.theme = dark ? "light" : "dark";
      keep("repobook-theme", root.dataset.theme);
    }
    if (kept("repobook-theme")) root.dataset.theme = kept("repobook-theme");
    const source = document.body.dataset.source;
    function split() {
      if (!source) return;
      const pane = document.getElementById("pane");
      if (pane) { pane.remove(); document.body.classList.remove("split"); return; }
      const frame = document.createElement("iframe");
      frame.id = frame.name = "pane";
      frame.title = "source";
      frame.src = source;
      document.body.append(frame);
      document.body.classList.add("split");
    }
    // With the pane open, links to lines of this file move it instead of leaving the page.
    document.addEventListener("click", (event) => {
      const link = event.target.closest && event.target.closest("a[href]");
      const pane = document.getElementById("pane");
      if (pane && link && source && link.getAttribute("href").split("#")[0] === source) {
        event.preventDefault();
        pane.src = link.getAttribute("href");
      }
    });
    document.getElementById("theme").addEventListener("click", theme);
    const button = document.getElementById("split");
    if (source) button.addEventListener("click", split); else button.hidden = true;
  }
  document.addEventListener("DOMContentLoaded", start);
  return { shard: (key, rows) => shards.set(key, rows), paths: (rows) => { paths = rows; }, search };
})();
