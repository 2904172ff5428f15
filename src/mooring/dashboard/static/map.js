// The map of nodes: pointing at a square shows the name of its node, and a click leads there. The list of nodes is the same
// for users who use no pointer.
const base = document.body.dataset.base;
let names = null; // names and texts by group, asked for when they are first needed
let tip = null;

export function follow(root) {
  root.addEventListener("pointermove", async (event) => {
    const found = await under(event);
    if (!found) return hide();
    tip ??= Object.assign(document.body.appendChild(document.createElement("div")), { id: "tip", role: "presentation" });
    tip.textContent = `${found[0]}: ${found[1]}`;
    tip.style.left = `${Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8)}px`;
    tip.style.top = `${event.clientY + 16}px`;
    tip.hidden = false;
  });
  root.addEventListener("click", async (event) => {
    const found = await under(event);
    if (found) location.href = `${base}nodes/${encodeURIComponent(found[0])}`;
  });
  document.addEventListener("refreshed", () => { names = null; });
}

function hide() {
  if (tip) tip.hidden = true;
}

async function under(event) {
  const map = event.target.closest?.("svg.map");
  if (!map) return null;
  const { by, show } = map.closest("[data-by]").dataset;
  names ??= fetch(`${base}map?${new URLSearchParams({ by, show, format: "json" })}`).then((answer) => answer.json());
  const groups = await names.catch(() => null);
  const box = map.getBoundingClientRect();
  const side = Number(map.dataset.side) * (box.width / map.viewBox.baseVal.width);
  const x = Math.floor((event.clientX - box.left) / side);
  const y = Math.floor((event.clientY - box.top) / side);
  return groups?.[Number(map.dataset.group)]?.[y * Number(map.dataset.columns) + x] ?? null;
}
