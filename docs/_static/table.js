// The table of benchmarks: a filter by words and by kind, and sorting by a click on a column's title.
(() => {
  for (const box of document.querySelectorAll(".bench")) {
    const words = box.querySelector("input");
    const kind = box.querySelector("select");
    const count = box.querySelector(".bench-count");
    const body = box.querySelector("tbody");
    const rows = [...body.rows];
    const show = () => {
      const wanted = words.value.toLowerCase().split(/\s+/).filter(Boolean);
      let shown = 0;
      for (const row of rows) {
        const text = row.cells[0].textContent.toLowerCase();
        row.hidden = (kind.value && row.dataset.kind !== kind.value) || !wanted.every((word) => text.includes(word));
        shown += !row.hidden;
      }
      count.textContent = `${shown} of ${rows.length} rows`;
      document.body.dataset.rows = shown;
    };
    // Times such as "3.05 ms" are compared in seconds; empty cells come last.
    const units = { "µs": 1e-6, ms: 1e-3, s: 1 };
    const number = (text) => {
      const found = text.match(/^([\d.e-]+)\s*(µs|ms|s)?$/);
      return found ? parseFloat(found[1]) * (units[found[2]] || 1) : Infinity;
    };
    box.querySelectorAll("th").forEach((head, column) => {
      head.tabIndex = 0;
      const sort = () => {
        const down = head.getAttribute("aria-sort") === "ascending";
        box.querySelectorAll("th").forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        const key = (row) => row.cells[column].textContent.trim();
        const order = (a, b) => {
          if (column === 0) return key(a).localeCompare(key(b)) * (down ? -1 : 1);
          const [x, y] = [number(key(a)), number(key(b))];
          if (x === y) return 0;
          return x === Infinity ? 1 : y === Infinity ? -1 : (x - y) * (down ? -1 : 1);
        };
        rows.sort(order).forEach((row) => body.append(row));
      };
      head.addEventListener("click", sort);
      head.addEventListener("keydown", (event) => event.key === "Enter" && sort());
    });
    words.addEventListener("input", show);
    kind.addEventListener("change", show);
    // An address such as benchmarks.html#filter=LSTM shows a filtered table.
    const given = new URLSearchParams(location.hash.slice(1));
    words.value = given.get("filter") || "";
    kind.value = given.get("kind") || "";
    show();
  }
})();
