// Three comforts; the page is complete without them: tables that sort by a click on their heads, a hint where a box can be
// scrolled sideways, films that can stand still.
"use strict";

function sortBy(table, column, direction) {
  const body = table.tBodies[0];
  const key = (row) => row.cells[column].dataset.value ?? row.cells[column].textContent;
  const rows = Array.from(body.rows);
  rows.sort((a, b) => {
    const [x, y] = [key(a), key(b)];
    if (x === "" || y === "") return (x === "") - (y === ""); // what has no number stays below, whatever the direction
    const [i, j] = [Number(x), Number(y)];
    const order = Number.isNaN(i) || Number.isNaN(j) ? x.localeCompare(y, "en", { numeric: true }) : i - j;
    return direction === "ascending" ? order : -order;
  });
  body.append(...rows);
}

for (const table of document.querySelectorAll("table.sortable")) {
  const heads = Array.from(table.tHead.rows[0].cells);
  heads.forEach((head, column) => {
    head.querySelector("button")?.addEventListener("click", () => {
      const first = head.dataset.first ?? "ascending";
      const other = first === "ascending" ? "descending" : "ascending";
      const direction = head.getAttribute("aria-sort") === first ? other : first;
      for (const each of heads) if (each.hasAttribute("aria-sort")) each.setAttribute("aria-sort", "none");
      head.setAttribute("aria-sort", direction);
      sortBy(table, column, direction);
    });
  });
}

for (const box of document.querySelectorAll(".sideways > .scroll")) {
  const hint = () => box.parentElement.classList.toggle("more", box.scrollWidth - box.clientWidth - box.scrollLeft > 1);
  box.addEventListener("scroll", hint, { passive: true });
  new ResizeObserver(hint).observe(box);
}

for (const film of document.querySelectorAll(".film")) {
  const image = film.querySelector("img");
  const button = film.querySelector("button");
  const moving = image.src;
  const halt = () => {
    const canvas = document.createElement("canvas");
    canvas.width = image.naturalWidth;
    canvas.height = image.naturalHeight;
    canvas.getContext("2d").drawImage(image, 0, 0);
    image.src = canvas.toDataURL();
  };
  const show = (still) => {
    if (still) halt();
    else image.src = moving;
    button.firstChild.data = still ? "Play" : "Pause";
  };
  button.hidden = false;
  button.addEventListener("click", () => show(image.src === moving));
  if (matchMedia("(prefers-reduced-motion: reduce)").matches) image.decode().then(() => show(true), () => {});
}
