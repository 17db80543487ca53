// Live numbers: what /metrics counts, of the last minutes that the page has seen.

import {byId, say} from "/page/dom.js";
import {count, percent, seconds} from "/page/format.js";
import {ask} from "/page/server.js";

const kMinutes = 5;
const kFirstToken = "attndb_first_token_seconds_bucket";

const samples = [];  // Oldest first.

// {seconds, values: {name: value}, buckets: [[bound, count up to it]]} of OpenMetrics text.
export function parseMetrics(text) {
  const sample = {seconds: performance.now() / 1000, values: {}, buckets: []};
  for (const line of text.split("\n")) {
    const [, name, labels, value] = line.match(/^(\w+)(?:\{(.*)\})? (\S+)/) ?? [];
    if (name === kFirstToken) {
      const bound = labels.match(/le="([^"]*)"/)[1];
      sample.buckets.push([bound === "+Inf" ? Infinity : Number(bound), Number(value)]);
    } else if (name && !labels) {
      sample.values[name] = Number(value);
    }
  }
  return sample;
}

// The time below which a share of the first tokens between two samples came, as the histogram tells
// it: in its bucket, evenly. Null: there were none.
export function quantile(from, to, share) {
  const counts = to.buckets.map(([bound, sum], i) => [bound, sum - (from?.buckets[i]?.[1] ?? 0)]);
  const total = counts.at(-1)?.[1] ?? 0;
  if (total === 0) return null;
  let low = 0;
  let before = 0;
  for (const [bound, sum] of counts) {
    if (sum >= share * total) {
      if (bound === Infinity) return low;
      return low + (bound - low) * (share * total - before) / (sum - before);
    }
    low = bound;
    before = sum;
  }
  return low;
}

const added = (from, to, name) => to.values[name] - (from?.values[name] ?? 0);

function hitRate(from, to) {
  const asked = added(from, to, "attndb_prompt_tokens_total");
  return asked > 0 ? added(from, to, "attndb_cached_tokens_total") / asked : null;
}

// Each token counts when it is sampled.
function tokensPerSecond(from, to) {
  return added(from, to, "attndb_reply_tokens_total") / (to.seconds - from.seconds);
}

// Draws values in a box of 100 by 20; null where there is none. The largest is the top.
function draw(line, values, most) {
  const top = most ?? Math.max(...values.filter((value) => value !== null), 1e-9);
  const step = 100 / Math.max(values.length - 1, 1);
  const points = values.flatMap((value, i) =>
    value === null ? [] : [`${(i * step).toFixed(1)},${(19 - 18 * value / top).toFixed(1)}`]);
  byId(line).setAttribute("points", points.join(" "));
}

function show() {
  const now = samples.at(-1);
  // Before anything has happened while the page was open: all since the server's start.
  const recent = samples.length > 1 && added(samples[0], now, "attndb_prompt_tokens_total") > 0;
  const from = recent ? samples[0] : null;
  say(byId("numbers-since"), recent ? `the last ${kMinutes} minutes` : "since the server's start");
  const rate = hitRate(from, now);
  say(byId("hit-rate"), rate === null ? "–" : percent(rate));
  const [half, most] = [0.5, 0.9].map((share) => quantile(from, now, share));
  say(byId("first-token"),
      half === null ? "–" : `${seconds(half)} / ${seconds(most)}`);
  say(byId("speed"), samples.length > 1 ? tokensPerSecond(samples.at(-2), now).toFixed(1) : "–");
  say(byId("turns"), `${count(now.values.attndb_active_turns)} / ` +
      `${count(now.values.attndb_waiting_turns)}`);
  const pairs = samples.slice(1).map((to, i) => [samples[i], to]);
  draw("hit-rate-line", pairs.map(([a, b]) => hitRate(a, b)), 1);
  draw("first-token-line", pairs.map(([a, b]) => quantile(a, b, 0.5)));
  draw("speed-line", pairs.map(([a, b]) => tokensPerSecond(a, b)));
  draw("turns-line", samples.map(({values}) => values.attndb_active_turns));
}

export async function showNumbers() {
  let response;
  try {
    response = await ask("/metrics");
  } catch (error) {
    // With a tenant's key there are no numbers: they count all tenants.
    byId("numbers").hidden = error.status === 403;
    if (error.status === 403) return;
    throw error;
  }
  byId("numbers").hidden = false;
  const sample = parseMetrics(await response.text());
  // A server that was started again counts from 0.
  const last = samples.at(-1);
  if (last && added(last, sample, "attndb_passes_total") < 0) samples.length = 0;
  samples.push(sample);
  while (samples[0].seconds < sample.seconds - 60 * kMinutes) samples.shift();
  show();
}
