"use strict";
// Tables sort by their headings.
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  const heads = [...table.tHead.rows[0].cells];
  const units = { B: 1, KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30 };
  const value = (row, column) => {
    const text = row.cells[column].textContent;
    const found = /^(-?[\d.]+)(?: (\S+))?$/.exec(text);
    return found ? Number(found[1]) * (units[found[2]] ?? 1) : text;
  };
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const up = head.getAttribute("aria-sort") !== "ascending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      const order = (a, b) => {
        const [x, y] = [value(a, column), value(b, column)];
        const less = typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y));
        return up ? less : -less;
      };
      body.append(...[...body.rows].sort(order));
    });
  });
}
