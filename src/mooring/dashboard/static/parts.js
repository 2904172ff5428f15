// Parts of pages: `data-src` is loaded when it comes into sight; a form with `data-into` puts its answer there, with
// `data-auto` as soon as something is chosen, with `data-typing` while the user types.

const seen = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    if (entry.isIntersecting) {
      seen.unobserve(entry.target);
      fetch(entry.target.dataset.src).catch(() => null).then((answer) => put(entry.target, answer));
    }
  }
});

export function load(root) {
  for (const part of root.querySelectorAll("[data-src]")) seen.observe(part);
}

export function forms(root) {
  root.addEventListener("submit", (event) => {
    const form = event.target;
    if (!form.dataset.into || event.submitter?.dataset.file !== undefined) return;
    event.preventDefault();
    send(form, event.submitter);
  });
  root.addEventListener("change", (event) => {
    const form = event.target.form;
    if (form && form.dataset.auto !== undefined) form.requestSubmit();
  });
  let timer = 0;
  root.addEventListener("input", (event) => {
    const form = event.target.form;
    mirror(event.target);
    if (form?.dataset.typing === undefined) return;
    clearTimeout(timer);
    timer = setTimeout(() => form.requestSubmit(), 250);
  });
}

function mirror(control) {
  // A slider shows its number, and the number moves the slider.
  const twin = control.dataset.twin && document.getElementById(control.dataset.twin);
  if (twin) twin.value = control.value;
}

async function send(form, submitter) {
  const into = document.getElementById(submitter?.dataset.into || form.dataset.into);
  const body = new URLSearchParams(new FormData(form, submitter));
  const address = submitter?.getAttribute("formaction") || form.getAttribute("action");
  const number = (form.sent = (form.sent ?? 0) + 1);
  into.classList.add("busy");
  into.setAttribute("aria-busy", "true");
  const isPost = (submitter?.getAttribute("formmethod") || form.method) === "post";
  const answer = await fetch(isPost ? address : `${address}?${body}`, isPost ? posted(body) : {}).catch(() => null);
  if (form.sent !== number) return; // a later one is under way
  await put(into, answer);
  const dialog = into.closest("dialog"); // a change is shown before it is made
  if (dialog && !dialog.open) dialog.showModal();
  if (form.dataset.address) {
    const query = new URLSearchParams([...new FormData(form)].filter(([, value]) => value)); // what a step has changed, too
    if (`${query}`.length < 8000) history.replaceState(null, "", `${form.dataset.address}?${query}`);
  }
}

function posted(body) {
  const changing = document.body.dataset.changing; // only where pages may change the cluster
  return { method: "POST", body, headers: changing ? { "x-mooring-changes": changing } : {} };
}

async function put(into, answer) {
  into.classList.remove("busy");
  into.removeAttribute("aria-busy");
  if (!answer) {
    into.textContent = "The dashboard does not answer.";
    return;
  }
  const found = new DOMParser().parseFromString(await answer.text(), "text/html");
  const main = found.querySelector("main"); // of a page that says what went wrong
  into.replaceChildren(...(main ?? found.body).childNodes);
  load(into);
}
