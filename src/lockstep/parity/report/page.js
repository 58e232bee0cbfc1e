"use strict";
document.querySelectorAll("button[data-copy]").forEach((button) => {
  button.addEventListener("click", () => {
    const text = document.getElementById(button.dataset.copy).textContent;
    const done = () => { button.textContent = "copied"; };
    if (navigator.clipboard) navigator.clipboard.writeText(text).then(done, () => select());
    else select();
    function select() {
      getSelection().selectAllChildren(document.getElementById(button.dataset.copy));
      button.textContent = "selected";
    }
  });
});
const filter = document.getElementById("filter");
if (filter) {
  const rows = [...document.querySelectorAll("table.values tbody tr")];
  filter.addEventListener("input", () => {
    const wanted = filter.value.toLowerCase();
    rows.forEach((row) => { row.hidden = !row.textContent.toLowerCase().includes(wanted); });
  });
}
