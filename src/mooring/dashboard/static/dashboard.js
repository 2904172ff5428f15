// What the pages do in a browser: keep themselves up to date, load parts, send forms, copy commands. Without any of
// this they can still be read and walked through. Everything that is inserted comes escaped from the dashboard itself.
import { listen } from "./live.js";
import { forms, load } from "./parts.js";
import { follow } from "./map.js";

document.addEventListener("click", async (event) => {
  const button = event.target.closest?.("[data-copy]");
  if (!button) return;
  await navigator.clipboard.writeText(button.dataset.copy);
  button.textContent = "Copied";
  setTimeout(() => { button.textContent = "Copy"; }, 2000);
});

forms(document);
load(document);
follow(document);
listen();
