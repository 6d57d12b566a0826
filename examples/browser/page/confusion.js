// The table of true and predicted classes.

/**
 * Fills the table.
 *
 * @param {HTMLTableElement} table
 * @param {string[]} names - of the classes
 * @param {number[][]} confusion - number of samples by true and predicted class
 */
export function showConfusion(table, names, confusion) {
  const predicted = header("predicted", "colgroup");
  predicted.colSpan = names.length;
  const columns = names.map((name) => header(name, "col"));
  table.tHead.replaceChildren(row(cell("td", ""), predicted), row(cell("td", ""), ...columns));
  const rows = confusion.map((counts, label) => {
    const all = counts.reduce((a, b) => a + b, 0);
    const cells = counts.map((count, k) => {
      const result = cell("td", count);
      result.classList.toggle("right", k === label);
      const shade = all ? (0.4 * count) / all : 0;
      result.style.backgroundImage =
        `linear-gradient(rgba(var(--shade), ${shade}), rgba(var(--shade), ${shade}))`;
      return result;
    });
    return row(header(names[label], "row"), ...cells);
  });
  table.tBodies[0].replaceChildren(...rows);
}

function row(...cells) {
  const result = document.createElement("tr");
  result.append(...cells);
  return result;
}

function cell(kind, text) {
  const result = document.createElement(kind);
  result.textContent = text;
  return result;
}

function header(name, scope) {
  const result = cell("th", name);
  result.scope = scope;
  return result;
}
