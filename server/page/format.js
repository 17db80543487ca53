// Numbers as people read them.

const kCounts = new Intl.NumberFormat("en");

export const count = (value) => kCounts.format(value);

export function counted(value, one, many = `${one}s`) {
  return `${count(value)} ${value === 1 ? one : many}`;
}

export function bytes(value) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  for (; value >= 1024 && unit + 1 < units.length; ++unit) value /= 1024;
  return `${value.toFixed(unit > 0 && value < 100 ? 1 : 0)} ${units[unit]}`;
}

export function seconds(value) {
  if (value < 1) return `${Math.round(value * 1000)} ms`;
  return `${value.toFixed(value < 100 ? 2 : 0)} s`;
}

// A length of time, by its largest unit.
export function span(value) {
  const units = [["d", 86400], ["h", 3600], ["min", 60]];
  const [name, size] = units.find(([, length]) => value >= length) ?? ["s", 1];
  return `${Math.floor(value / size)} ${name}`;
}

export const ago = (microseconds) =>
  `${span(Math.max(0, Date.now() / 1000 - microseconds / 1e6))} ago`;

export function percent(share) {
  if (share > 0 && share < 0.001) return "< 0.1 %";
  return `${(share * 100).toFixed(share > 0 && share < 0.1 ? 1 : 0)} %`;
}
