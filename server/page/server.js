// Asks the server that the page came from, with the key that its user gave. The key is kept for as
// long as the tab is, and goes nowhere else.

const kKeyName = "attndb-key";

export class ServerError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

let refused = () => {};
let accepted = () => {};

// `onRefused(message, hadKey)`: no key, or a wrong one. `onAccepted()`: an answer to a key.
export function watchKey(onRefused, onAccepted) {
  refused = onRefused;
  accepted = onAccepted;
}

export const key = () => sessionStorage.getItem(kKeyName) ?? "";

export function setKey(value) {
  if (value) sessionStorage.setItem(kKeyName, value);
  else sessionStorage.removeItem(kKeyName);
}

async function errorOf(response) {
  const text = await response.text();
  try {
    return new ServerError(response.status, JSON.parse(text).error.message);
  } catch {
    return new ServerError(response.status, text || response.statusText);
  }
}

// The answer, if it is one of success. Errors: ServerError with the server's own words; status 0:
// it does not answer. AbortError: `signal` said so.
export async function ask(path, {method = "GET", body, signal} = {}) {
  const used = key();
  const headers = {};
  if (used) headers.Authorization = `Bearer ${used}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let response;
  try {
    response = await fetch(path, {method, headers, signal, body: JSON.stringify(body)});
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ServerError(0, "the server does not answer");
  }
  if (response.ok) {
    if (used) accepted();
    return response;
  }
  const error = await errorOf(response);
  if (error.status === 401) refused(error.message, used !== "");
  throw error;
}

export const askJson = async (path, options) => (await ask(path, options)).json();

// The events of a stream of server-sent events, up to [DONE].
export async function* eventsOf(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const {done, value} = await reader.read();
    if (done) throw new ServerError(0, "the server ended the answer before it was complete");
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines) {
      if (!line.startsWith("data: ")) continue;
      const data = line.slice("data: ".length);
      if (data === "[DONE]") return;
      const event = JSON.parse(data);
      if (event.error) throw new ServerError(event.error.code, event.error.message);
      yield event;
    }
  }
}
