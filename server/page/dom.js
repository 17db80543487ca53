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

// A list whose items keep their elements, and so the focus, while it changes.
//   place()             the element that the items' elements are in
//   makeItem()          an item: {element, ...}
//   fillItem(item, of)  makes the item say what it is of
export class KeyedList {
  constructor(place, makeItem, fillItem) {
    this.place = place;
    this.makeItem = makeItem;
    this.fillItem = fillItem;
    this.items = new Map();
  }

  show(values, keyOf) {
    const place = this.place();
    const gone = new Set(this.items.keys());
    values.forEach((value, i) => {
      const key = keyOf(value);
      gone.delete(key);
      if (!this.items.has(key)) this.items.set(key, this.makeItem());
      const item = this.items.get(key);
      this.fillItem(item, value);
      // An element that is moved loses the focus: only what stands elsewhere is.
      const here = place.children[i];
      if (here !== item.element) place.insertBefore(item.element, here ?? null);
    });
    for (const key of gone) {
      this.items.get(key).element.remove();
      this.items.delete(key);
    }
  }
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
