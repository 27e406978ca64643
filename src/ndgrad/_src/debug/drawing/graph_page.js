"use strict";
// A graph to walk in. The page's data has every node; folding, layout and drawing happen here, on a canvas, so that ten
// thousand nodes stay quick. What is shown is also told by attributes of <body>, and can be asked for in the address:
//   #fold=function&heat=bytes&view=both&search=exp
const data = JSON.parse(document.getElementById("data").textContent);
const nodes = data.nodes, byId = id => document.getElementById(id);
const canvas = byId("canvas"), pen = canvas.getContext("2d");
const WIDTH = 150, HEIGHT = 36, GAP = 22, LAYER = 78, ASIDE = 140, FAR = 0.12;
const state = { fold: "none", heat: "kind", view: "forward", search: "", opened: new Set(), selected: null, match: 0 };
const camera = { x: 0, y: 0, scale: 1 };
let items = [], edges = [], bounds = { width: 1, height: 1 }, matches = [], named = 0, colours = {};

// ----- what is shown: nodes, or groups of them ----------------------------------------------------------------------

const groupOf = { none: n => null, line: n => n.line && n.file + ":" + n.line, function: n => n.inside, module: n => n.module };

function build() {
  const key = groupOf[state.fold], groups = new Map();
  const itemOf = new Array(nodes.length);
  items = [];
  nodes.forEach((node, i) => {
    const name = node.kind === "leaf" && state.fold !== "module" ? null : key(node);
    if (name && !state.opened.has(name)) {
      let group = groups.get(name);
      if (!group) { group = { group: name, members: [], kind: "fold" }; groups.set(name, group); items.push(group); }
      group.members.push(i); itemOf[i] = group;
    } else { itemOf[i] = { group: null, members: [i], kind: node.root && node.kind !== "leaf" ? "root" : node.kind }; items.push(itemOf[i]); }
  });
  for (const item of items) {
    const first = nodes[item.members[0]];
    if (item.group && item.members.length === 1) { item.kind = first.kind; }
    item.order = item.members.reduce((most, i) => Math.max(most, nodes.length - i), 0);  // nodes come consumers first
    item.bytes = item.members.reduce((sum, i) => sum + nodes[i].bytes, 0);
    item.time = item.members.reduce((sum, i) => sum + nodes[i].forward_us + nodes[i].backward_us, 0);
    item.title = item.members.length > 1 ? short(item.group, 24) : first.title;
    item.op = item.members.length > 1 ? item.title : first.kind === "leaf" ? first.names || "leaf" : first.title.replace(/Backward\d*$/, "");
    item.sub = item.members.length > 1 ? item.members.length + " nodes" : [first.names, first.shape].filter(Boolean).join("  ");
    item.above = new Set(); item.below = new Set();
  }
  const seen = new Set();
  edges = [];
  nodes.forEach((node, i) => node.inputs.forEach(j => {
    const from = itemOf[j], to = itemOf[i];
    if (from === to) return;
    const id = from.order + ">" + to.order;
    if (seen.has(id)) return;
    seen.add(id); edges.push([from, to]);
    if (from.order < to.order) { from.below.add(to); to.above.add(from); }  // against it: groups that need each other
  }));
  layout();
  search(false);
  tell();
}

// ----- layout: layers by the longest way from a leaf, then neighbours under neighbours -------------------------------

function layout() {
  const sorted = [...items].sort((a, b) => a.order - b.order);
  for (const item of sorted) { item.layer = 0; for (const up of item.above) item.layer = Math.max(item.layer, up.layer + 1); }
  for (const item of [...sorted].reverse())  // what nothing holds above stays near its user
    if (!item.above.size && item.below.size) item.layer = Math.min(...[...item.below].map(d => d.layer)) - 1;
  const layers = [];
  for (const item of sorted) (layers[item.layer] = layers[item.layer] || []).push(item);
  layers.forEach(layer => layer.forEach((item, i) => { item.x = (i - layer.length / 2) * (WIDTH + GAP); }));
  const rounds = items.length > 4000 ? 3 : 8;
  for (let round = 0; round < rounds; round++) {
    const down = round % 2 === 0, order = down ? layers : [...layers].reverse();
    for (const layer of order) {
      if (!layer) continue;
      for (const item of layer) {
        const near = [...(down ? item.above : item.below)];
        item.want = near.length ? near.reduce((sum, n) => sum + n.x, 0) / near.length : item.x;
      }
      layer.sort((a, b) => a.want - b.want);
      place(layer);
    }
  }
  let left = Infinity, right = -Infinity, bottom = 0;
  for (const item of items) {
    item.y = item.layer * LAYER;
    left = Math.min(left, item.x); right = Math.max(right, item.x + WIDTH); bottom = Math.max(bottom, item.y + HEIGHT);
  }
  for (const item of items) item.x -= left;
  bounds = { width: right - left, height: bottom };
}

function place(layer) {  // as near to where each wants to be as its neighbours allow
  const step = WIDTH + GAP;
  let blocks = [];
  for (const item of layer) {
    blocks.push({ items: [item], sum: item.want, x: item.want });
    while (blocks.length > 1) {
      const b = blocks[blocks.length - 1], a = blocks[blocks.length - 2];
      if (a.x + a.items.length * step <= b.x) break;
      blocks.pop();
      a.sum += b.sum - b.items.length * a.items.length * step;
      a.items = a.items.concat(b.items);
      a.x = a.sum / a.items.length;
    }
  }
  for (const b of blocks) b.items.forEach((item, i) => { item.x = b.x + i * step; });
}

// ----- drawing ------------------------------------------------------------------------------------------------------

let dark = false;
function readColours() {
  dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const style = getComputedStyle(document.documentElement);
  for (const name of ["paper", "ink", "faint", "line", "mark", "leaf", "op", "root", "function", "write", "fold"]) colours[name] = style.getPropertyValue("--" + name).trim();
}

let asked = false;
function draw() {  // at most once per frame of the screen, however many events ask for it
  if (asked) return;
  asked = true;
  requestAnimationFrame(() => { asked = false; paint(); });
}

function paint() {
  const ratio = devicePixelRatio || 1, box = canvas.getBoundingClientRect();
  if (canvas.width !== Math.round(box.width * ratio) || canvas.height !== Math.round(box.height * ratio)) { canvas.width = Math.round(box.width * ratio); canvas.height = Math.round(box.height * ratio); }
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.fillStyle = colours.paper; pen.fillRect(0, 0, box.width, box.height);
  pen.setTransform(ratio * camera.scale, 0, 0, ratio * camera.scale, ratio * camera.x, ratio * camera.y);
  const seen = { left: -camera.x / camera.scale, top: -camera.y / camera.scale, right: (box.width - camera.x) / camera.scale, bottom: (box.height - camera.y) / camera.scale };
  const most = state.heat === "kind" ? 1 : items.reduce((found, i) => Math.max(found, i[state.heat]), 1e-9);
  const far = camera.scale < FAR;
  for (const copy of copies()) {
    if (far) { farEdges(copy, seen); farItems(copy, seen, most); } else {
      drawEdges(copy, seen);
      for (const item of items) drawItem(item, copy, seen, most);
    }
    if (copies().length > 1) { pen.fillStyle = colours.faint; pen.font = "600 15px system-ui"; pen.textAlign = "left"; pen.fillText(copy.backward ? "backward: gradients flow up" : "forward: values flow down", copy.dx, -18); }
  }
}

// From far away a box is a few pixels: all of one colour are one path, and so are the edges that are long enough to see.

function farEdges(copy, seen) {
  const least = 3 / camera.scale;
  pen.strokeStyle = colours.line; pen.lineWidth = 0.7 / camera.scale; pen.globalAlpha = 0.5;
  pen.beginPath();
  for (const [from, to] of edges) {
    const x1 = from.x + copy.dx + WIDTH / 2, y1 = from.y + HEIGHT, x2 = to.x + copy.dx + WIDTH / 2, y2 = to.y;
    if (Math.abs(x1 - x2) + Math.abs(y1 - y2) < least || Math.max(x1, x2) < seen.left || Math.min(x1, x2) > seen.right || Math.max(y1, y2) < seen.top || Math.min(y1, y2) > seen.bottom) continue;
    pen.moveTo(x1, y1); pen.lineTo(x2, y2);
  }
  pen.stroke(); pen.globalAlpha = 1;
}

function farItems(copy, seen, most) {
  const least = 1.5 / camera.scale, wide = Math.max(WIDTH, least), high = Math.max(HEIGHT, least), byColour = new Map();
  for (const item of items) {
    const x = item.x + copy.dx;
    if (x + wide < seen.left || x > seen.right || item.y + high < seen.top || item.y > seen.bottom) continue;
    const marked = item === state.selected || (state.search && item.matched), colour = marked ? colours.mark : heatOf(item, most);
    if (!byColour.has(colour)) byColour.set(colour, []);
    byColour.get(colour).push(x, item.y);
  }
  const last = byColour.get(colours.mark);  // what was searched for lies on top
  byColour.delete(colours.mark);
  if (last) byColour.set(colours.mark, last);
  for (const [colour, places] of byColour) {
    pen.fillStyle = colour; pen.globalAlpha = state.search && colour !== colours.mark ? 0.35 : 1;
    pen.beginPath();
    for (let i = 0; i < places.length; i += 2) pen.rect(places[i], places[i + 1], wide, high);
    pen.fill();
  }
  pen.globalAlpha = 1;
}

const copies = () => state.view === "both" ? [{ dx: 0, backward: false }, { dx: bounds.width + ASIDE, backward: true }] : [{ dx: 0, backward: state.view === "backward" }];

function drawEdges(copy, seen) {
  pen.strokeStyle = colours.line; pen.fillStyle = colours.line; pen.lineWidth = 1.2;
  const arrows = camera.scale > 0.25;
  for (const [from, to] of edges) {
    const x1 = from.x + copy.dx + WIDTH / 2, y1 = from.y + HEIGHT, x2 = to.x + copy.dx + WIDTH / 2, y2 = to.y;
    if (Math.max(x1, x2) < seen.left || Math.min(x1, x2) > seen.right || Math.max(y1, y2) < seen.top || Math.min(y1, y2) > seen.bottom) continue;
    pen.beginPath(); pen.moveTo(x1, y1);
    const bend = Math.max(18, Math.abs(y2 - y1) / 2);
    pen.bezierCurveTo(x1, y1 + bend, x2, y2 - bend, x2, y2); pen.stroke();
    if (arrows) {
      const [ax, ay, way] = copy.backward ? [x1, y1, 1] : [x2, y2, -1];
      pen.beginPath(); pen.moveTo(ax, ay); pen.lineTo(ax - 4, ay + 7 * way); pen.lineTo(ax + 4, ay + 7 * way); pen.fill();
    }
  }
}

function drawItem(item, copy, seen, most) {
  const x = item.x + copy.dx, y = item.y;
  if (x + WIDTH < seen.left || x > seen.right || y + HEIGHT < seen.top || y > seen.bottom) return;
  pen.fillStyle = heatOf(item, most);
  const matched = state.search && item.matched;
  pen.globalAlpha = state.search && !matched ? 0.35 : 1;
  pen.beginPath(); pen.roundRect(x, y, WIDTH, HEIGHT, 6); pen.fill();
  pen.lineWidth = item === state.selected || matched ? 3 : 1;
  pen.strokeStyle = item === state.selected || matched ? colours.mark : colours.line; pen.stroke();
  if (camera.scale > 0.3) {
    pen.fillStyle = colours.ink; pen.textAlign = "center"; pen.font = "600 12px system-ui";
    pen.fillText(short(copy.backward ? item.title : item.op, 24), x + WIDTH / 2, y + (item.sub ? 15 : 22));
    pen.fillStyle = state.heat === "kind" ? colours.faint : colours.ink; pen.font = "10.5px system-ui";
    pen.fillText(short(copy.backward && item.bytes ? bytes(item.bytes) + " saved" : item.sub, 28), x + WIDTH / 2, y + 29);
  }
  pen.globalAlpha = 1;
}

function heatOf(item, most) {
  if (state.heat === "kind") return colours[item.kind] || colours.op;
  const share = Math.round(24 * Math.sqrt(item[state.heat] / most)) / 24;  // so few colours that each can be one path
  return `hsl(${220 - 215 * share} ${35 + 45 * share}% ${dark ? 22 + 18 * share : 93 - 33 * share}%)`;
}

// ----- words --------------------------------------------------------------------------------------------------------

const short = (text, most) => !text ? "" : text.length > most ? text.slice(0, most - 1) + "…" : text;
const bytes = n => n >= 1e9 ? (n / 1e9).toFixed(1) + " GB" : n >= 1e6 ? (n / 1e6).toFixed(1) + " MB" : n >= 1e3 ? (n / 1e3).toFixed(1) + " kB" : n + " B";
const micro = n => n >= 1e3 ? (n / 1e3).toFixed(2) + " ms" : n.toFixed(1) + " µs";
const escaped = text => String(text).replace(/[&<>"]/g, c => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" }[c]));

function tell() {
  Object.assign(document.body.dataset, { items: items.length, nodes: nodes.length, edges: edges.length, fold: state.fold, heat: state.heat, view: state.view, matches: matches.length, layers: items.reduce((most, i) => Math.max(most, i.layer), 0) + 1 });
  byId("found").textContent = state.search ? `${matches.length} found${named && named < matches.length ? `, ${named} by name` : ""}` : "";
}

function show(item) {
  state.selected = item;
  const panel = byId("panel");
  if (!item) { panel.innerHTML = byId("help").innerHTML; draw(); return; }
  const rows = [], add = (name, value) => { if (value) rows.push(`<dt>${name}</dt><dd>${value}</dd>`); };
  const node = nodes[item.members[0]];
  if (item.members.length > 1) {
    add("nodes", item.members.length);
    const counts = {};
    item.members.forEach(i => { counts[nodes[i].title] = (counts[nodes[i].title] || 0) + 1; });
    add("of them", Object.entries(counts).sort((a, b) => b[1] - a[1]).slice(0, 12).map(([t, n]) => `${n} × ${escaped(t)}`).join("<br>"));
  } else {
    add("tensor", escaped(node.names)); add("result", escaped(node.shape)); add("keeps", escaped(node.saved)); add("hooks", node.hooks);
    add("module", escaped(node.module || ""));
  }
  add("saved", item.bytes ? bytes(item.bytes) : ""); add("time", item.time ? micro(item.time) : "");
  const place = node.line ? `<p><a href="file://${encodeURI(node.file)}" title="open the file">${escaped(node.file.split("/").pop())}:${node.line}</a> in <code>${escaped(node.inside || "")}</code></p>${node.source ? `<pre>${escaped(node.source)}</pre>` : ""}` : "";
  const links = (title, others) => others.length ? `<p>${title}</p><ul>${others.slice(0, 12).map(o => `<li><a data-item="${items.indexOf(o)}">${escaped(o.op)} <span class="hint">${escaped(o.sub)}</span></a></li>`).join("")}</ul>` : "";
  panel.innerHTML = `<h2>${escaped(item.members.length > 1 ? item.group : node.title)}</h2><dl>${rows.join("")}</dl>${place}` +
    (item.group || groupOf[state.fold](node) ? `<p><button id="open">${item.members.length > 1 ? "unfold" : "fold"}</button></p>` : "") +
    links("made of", [...item.above]) + links("used by", [...item.below]);
  panel.querySelectorAll("[data-item]").forEach(a => a.addEventListener("click", () => { const next = items[+a.dataset.item]; centre(next); show(next); }));
  const button = byId("open");
  if (button) button.addEventListener("click", () => toggle(item));
  document.body.dataset.selected = item.title;
  draw();
}

function toggle(item) {
  const name = item.group || groupOf[state.fold](nodes[item.members[0]]);
  if (!name) return;
  if (state.opened.has(name)) state.opened.delete(name); else state.opened.add(name);
  const first = item.members[0];
  build();
  const again = items.find(i => i.members.includes(first));
  centre(again); show(again);
}

function search(move = true) {
  const words = state.search.toLowerCase().split(/\s+/).filter(Boolean);
  const said = [], elsewhere = [];  // a line of source names many nodes: those of that very name come first
  for (const item of items) {
    item.matched = words.length > 0 && item.members.some(i => { const n = nodes[i]; const text = `${n.title} ${n.names} ${n.shape} ${n.source} ${n.inside || ""} ${n.module || ""} ${n.file || ""}:${n.line || ""}`.toLowerCase(); return words.every(w => text.includes(w)); });
    if (item.matched) (words.every(w => `${item.group || ""} ${nodes[item.members[0]].title} ${nodes[item.members[0]].names}`.toLowerCase().includes(w)) ? said : elsewhere).push(item);
  }
  matches = [...said, ...elsewhere];
  named = said.length;
  if (move && matches.length) { const item = matches[state.match % matches.length]; centre(item); show(item); } else draw();
  tell();
}

// ----- moving about -------------------------------------------------------------------------------------------------

function fit() {
  const box = canvas.getBoundingClientRect(), width = state.view === "both" ? 2 * bounds.width + ASIDE : bounds.width;
  camera.scale = Math.min(1.4, Math.max(0.002, Math.min((box.width - 40) / width, (box.height - 60) / bounds.height)));
  camera.x = (box.width - width * camera.scale) / 2; camera.y = Math.max(30, (box.height - bounds.height * camera.scale) / 2);
  draw();
}

function centre(item) {
  const box = canvas.getBoundingClientRect();
  camera.scale = Math.max(camera.scale, 0.8);
  camera.x = box.width / 2 - (item.x + WIDTH / 2) * camera.scale; camera.y = box.height / 2 - (item.y + HEIGHT / 2) * camera.scale;
  draw();
}

function zoom(factor, x, y) {
  const scale = Math.min(4, Math.max(0.002, camera.scale * factor)), by = scale / camera.scale;
  camera.x = x - (x - camera.x) * by; camera.y = y - (y - camera.y) * by; camera.scale = scale;
  draw();
}

function under(x, y) {
  const gx = (x - camera.x) / camera.scale, gy = (y - camera.y) / camera.scale;
  for (const copy of copies()) { const found = items.find(i => gx >= i.x + copy.dx && gx <= i.x + copy.dx + WIDTH && gy >= i.y && gy <= i.y + HEIGHT); if (found) return found; }
  return null;
}

const pointers = new Map();
let moved = false;
canvas.addEventListener("pointerdown", e => { canvas.setPointerCapture(e.pointerId); pointers.set(e.pointerId, e); moved = false; canvas.classList.add("dragging"); });
canvas.addEventListener("pointermove", e => {
  const before = pointers.get(e.pointerId);
  if (!before) return;
  const others = [...pointers.values()].filter(p => p.pointerId !== e.pointerId);
  if (others.length) {
    const o = others[0], far = p => Math.hypot(p.offsetX - o.offsetX, p.offsetY - o.offsetY);
    zoom(far(e) / Math.max(1, far(before)), o.offsetX, o.offsetY);
  } else { camera.x += e.offsetX - before.offsetX; camera.y += e.offsetY - before.offsetY; draw(); }
  if (Math.hypot(e.offsetX - before.offsetX, e.offsetY - before.offsetY) > 1) moved = true;
  pointers.set(e.pointerId, e);
});
for (const kind of ["pointerup", "pointercancel"]) canvas.addEventListener(kind, e => { pointers.delete(e.pointerId); canvas.classList.remove("dragging"); if (kind === "pointerup" && !moved) show(under(e.offsetX, e.offsetY)); });
canvas.addEventListener("dblclick", e => { const item = under(e.offsetX, e.offsetY); if (item) toggle(item); });
canvas.addEventListener("wheel", e => { e.preventDefault(); zoom(Math.exp(-e.deltaY * 0.0015), e.offsetX, e.offsetY); }, { passive: false });
document.addEventListener("keydown", e => {
  if (e.target.matches("input, select")) return;
  const move = { ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60] }[e.key];
  if (move) { camera.x += move[0]; camera.y += move[1]; draw(); }
  else if (e.key === "/") { e.preventDefault(); byId("search").focus(); }
  else if (e.key === "0") fit();
  else if (e.key === "+" || e.key === "-") { const box = canvas.getBoundingClientRect(); zoom(e.key === "+" ? 1.25 : 0.8, box.width / 2, box.height / 2); }
});

for (const name of ["fold", "heat", "view"]) byId(name).addEventListener("change", e => { state[name] = e.target.value; state.opened.clear(); state.selected = null; build(); fit(); });
byId("search").addEventListener("input", e => { state.search = e.target.value; state.match = 0; search(); });
byId("search").addEventListener("keydown", e => { if (e.key === "Enter") { state.match += e.shiftKey ? matches.length - 1 : 1; search(); } });
byId("fit").addEventListener("click", fit);
new ResizeObserver(() => draw()).observe(canvas);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { readColours(); draw(); });

readColours();
const has = key => nodes.some(n => n.kind !== "leaf" && groupOf[key](n));
for (const key of ["line", "function", "module"]) if (!has(key)) byId("fold").querySelector(`[value=${key}]`).disabled = true;
if (!nodes.some(n => n.forward_us + n.backward_us)) byId("heat").querySelector("[value=time]").disabled = true;
if (nodes.length > 1500) state.fold = ["module", "function", "line"].find(has) || "none";
for (const [key, value] of new URLSearchParams(location.hash.slice(1))) if (key in state && typeof state[key] === "string") state[key] = value;
for (const name of ["fold", "heat", "view", "search"]) byId(name).value = state[name];
build(); show(null); fit();
if (state.search) search();
