// The page: the list of what was found, the keyboard, light and dark, the source beside the page.
"use strict";
(() => {
  const root = document.documentElement;
  const input = document.getElementById("q");
  const list = document.getElementById("found");
  const said = document.getElementById("said");
  const keep = (key, value) => { try { localStorage.setItem(key, value); } catch { /* storage may be off */ } };
  const kept = (key) => { try { return localStorage.getItem(key); } catch { return null; } };
  const framed = "framed" in root.dataset;

  // `repobook serve` sets this: the model answers then, with words of the documentation too.
  async function live(text) {
    const answer = await fetch(`/api/search?q=${encodeURIComponent(text)}`);
    if (!answer.ok) return [];
    return (await answer.json()).map((row) => ({
      name: row.kind === "file" ? row.path.split("/").pop() : row.qualified, kind: row.kind, path: row.path, more: 0,
      href: repobook.address(row.path, row.kind, row.qualified, row.page),
    }));
  }
  const ask = window.repobookLive ? live : repobook.search;

  let turn = 0;
  let active = -1;
  const options = () => list.querySelectorAll("[role=option]");
  function close() {
    list.hidden = true;
    active = -1;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
  }
  function choose(at) {
    const rows = options();
    if (!rows.length) return;
    if (active >= 0 && rows[active]) rows[active].setAttribute("aria-selected", "false");
    active = (at + rows.length) % rows.length;
    rows[active].setAttribute("aria-selected", "true");
    rows[active].scrollIntoView({ block: "nearest" });
    input.setAttribute("aria-activedescendant", rows[active].id);
  }
  function option(row, at) {
    const link = document.createElement("a");
    link.href = row.href;
    link.id = `found-${at}`;
    link.tabIndex = -1;
    link.setAttribute("role", "option");
    link.setAttribute("aria-selected", "false");
    const name = document.createElement("code");
    name.textContent = row.name;
    const kind = document.createElement("span");
    kind.className = "kind";
    kind.textContent = row.kind;
    const place = document.createElement("small");
    place.textContent = row.path + (row.more > 0 ? ` and ${row.more} more` : "");
    link.append(name, kind, place);
    return link;
  }
  async function show() {
    const mine = ++turn;
    const text = input.value;
    if (!text.trim()) { list.replaceChildren(); close(); said.textContent = ""; return; }
    const begun = performance.now();
    const rows = await ask(text);
    if (mine !== turn) return;
    if (rows.length) {
      list.replaceChildren(...rows.map(option));
      if (rows[0].misspelled) {
        const like = document.createElement("p");
        like.textContent = "No name begins like this. Names like it:";
        list.prepend(like);
      }
      said.textContent = rows[0].misspelled ? `${rows.length} similar names found` : `${rows.length} found`;
    } else {
      const none = document.createElement("p");
      none.textContent = "No name of this book is like this.";
      list.replaceChildren(none);
      said.textContent = "nothing found";
    }
    active = -1;
    input.removeAttribute("aria-activedescendant");
    input.setAttribute("aria-expanded", "true");
    list.hidden = false;
    list.scrollTop = 0;
    list.dataset.text = text;
    list.dataset.milliseconds = (performance.now() - begun).toFixed(1);
  }
  input.addEventListener("input", show);
  input.addEventListener("focus", () => {
    if (!window.repobookLive) repobook.ready();
    if (input.value.trim() && list.hidden) show();
  });
  input.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" && !list.hidden) { event.preventDefault(); choose(active + 1); }
    else if (event.key === "ArrowUp" && !list.hidden) { event.preventDefault(); choose(active < 0 ? -1 : active - 1); }
    else if (event.key === "Enter") {
      const target = options()[Math.max(active, 0)];
      if (target && !list.hidden) { event.preventDefault(); target.click(); close(); }
    } else if (event.key === "Escape") {
      if (list.hidden) input.blur(); else close();
    }
  });
  document.addEventListener("click", (event) => { if (!event.target.closest(".search")) close(); });

  function theme() {
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    keep("repobook-theme", root.dataset.theme);
  }
  document.getElementById("theme").addEventListener("click", theme);
  window.addEventListener("storage", (event) => {
    if (event.key === "repobook-theme" && event.newValue) root.dataset.theme = event.newValue;
  });

  // The contents stand open where there is room beside the page.
  const contents = document.querySelector(".contents details");
  function fold() {
    const room = matchMedia("(min-width: 80rem)").matches && !document.body.classList.contains("split");
    if (contents) contents.open = room;
  }
  fold();

  const source = document.body.dataset.source;
  const button = document.getElementById("split");
  function split(open) {
    if (!source) return;
    const old = document.getElementById("pane");
    if (open === !!old) return;
    if (old) old.remove();
    else {
      const pane = document.createElement("iframe");
      pane.id = "pane";
      pane.title = "Source of this file";
      pane.src = source;
      document.body.append(pane);
    }
    document.body.classList.toggle("split", open);
    fold();
    button.setAttribute("aria-pressed", String(open));
  }
  const toggle = () => {
    const open = !document.getElementById("pane");
    split(open);
    keep("repobook-split", open ? "1" : "");
  };
  if (button) button.addEventListener("click", toggle);
  if (source && kept("repobook-split") && matchMedia("(min-width: 60rem)").matches) split(true);

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (/^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement.tagName)) return;
    if (event.key === "/") { event.preventDefault(); input.focus(); input.select(); }
    else if (event.key === "s" && button) toggle();
    else if (event.key === "d") theme();
  });
  document.addEventListener("click", (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.shiftKey) return;
    // A click on a line's number makes the address of that line.
    const line = event.target.closest(".source > span");
    if (line && event.clientX - line.getBoundingClientRect().left < parseFloat(getComputedStyle(line).paddingLeft)) {
      location.hash = line.id;
      return;
    }
    // With the pane open, links to lines of this file move it instead of leaving the page.
    const link = event.target.closest("a[href]");
    const pane = document.getElementById("pane");
    if (pane && link && link.getAttribute("href").split("#")[0] === source) {
      event.preventDefault();
      pane.src = link.getAttribute("href");
    } else if (framed && link && link.target === "" && !link.getAttribute("href").startsWith("#")) {
      link.target = "_top"; // the pane shows source; other pages take the whole window
    }
  });
})();
