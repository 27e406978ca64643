// Tables that do not fit on a narrow screen: each row becomes a block, with the titles of the columns before its cells.
(() => {
  const tables = [...document.querySelectorAll("article table.docutils:not(.names)")];
  for (const table of tables) {
    const titles = [...table.querySelectorAll("thead th")].map((head) => head.textContent.trim());
    for (const row of table.querySelectorAll("tbody tr"))
      [...row.cells].forEach((cell, column) => titles[column] && cell.textContent.trim() && (cell.dataset.title = titles[column]));
  }
  // A table of numbers scrolls instead, so that its columns can be compared.
  const holdsText = (table) =>
    [...table.querySelectorAll("tbody td:not(:first-child)")].some((cell) => cell.textContent.trim().split(/\s+/).length > 3);
  const text = tables.filter(holdsText);
  const fit = () => {
    for (const table of text) {
      table.classList.remove("rows");
      if (table.offsetWidth > table.parentElement.clientWidth + 1) table.classList.add("rows");
    }
  };
  fit();
  addEventListener("resize", fit);
})();
