// Finds and makes elements. What models and contexts say is set as text, never as markup.

export const byId = (id) => document.getElementById(id);

// make("button", {type: "button", onclick: work}, "Pin"): properties where the element has them,
// attributes else.
export function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name in element) element[name] = value;
    else element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

// Sets a text only where it differs, so that nothing is read out twice.
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// Asks before what can't be undone. Resolves to whether it is wanted; Escape says no.
export function confirmed(question, yes) {
  const dialog = byId("confirm");
  say(byId("confirm-question"), question);
  say(byId("confirm-yes"), yes);
  return new Promise((resolve) => {
    byId("confirm-yes").onclick = () => dialog.close("yes");
    byId("confirm-no").onclick = () => dialog.close("");
    // The event comes later: one of the time before finds the dialog open again.
    dialog.onclose = () => dialog.open || resolve(dialog.returnValue === "yes");
    dialog.returnValue = "";
    dialog.showModal();
    byId("confirm-no").focus();
  });
}
