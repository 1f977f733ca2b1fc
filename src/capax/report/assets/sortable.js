// Tables inside .sortable: a click on a heading sorts by its column, a second click reverses the order.

function mountSortable(table) {
  const headings = [...table.tHead.rows[0].cells];
  headings.forEach((heading, column) => {
    const button = plainButton(heading.textContent, () => sortTable(table, headings, column));
    button.className = "sort";
    heading.replaceChildren(button);
    heading.setAttribute("aria-sort", "none");
  });
}

function sortTable(table, headings, column) {
  const down = headings[column].getAttribute("aria-sort") !== "descending";
  for (const heading of headings) heading.setAttribute("aria-sort", "none");
  headings[column].setAttribute("aria-sort", down ? "descending" : "ascending");
  const rows = [...table.tBodies[0].rows];
  const key = (row) => row.cells[column].textContent;
  const number = (text) => (text === "–" ? -Infinity : Number(text));
  const numeric = rows.every((row) => !Number.isNaN(number(key(row))));
  const compare = numeric ? (a, b) => number(key(a)) - number(key(b)) : (a, b) => key(a).localeCompare(key(b));
  rows.sort((a, b) => (down ? compare(b, a) : compare(a, b)));
  table.tBodies[0].append(...rows);
}
