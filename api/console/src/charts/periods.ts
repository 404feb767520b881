// Periods of charts, and how densely they are sampled.

const second = 1000;
const minute = 60 * second;
const hour = 60 * minute;
const day = 24 * hour;

export const periods = { "1h": hour, "24h": day, "7d": 7 * day, "30d": 30 * day } as const;
export type Period = keyof typeof periods;

export interface Range {
  start: number;
  stop: number;
}

/** What a chart shows: a period that ends now, or a range of one's own. */
export type Span = { period: Period } | { range: Range };

const samplings: [text: string, ms: number][] = [
  ["5s", 5 * second], ["10s", 10 * second], ["30s", 30 * second], ["1m", minute], ["2m", 2 * minute], ["5m", 5 * minute],
  ["10m", 10 * minute], ["15m", 15 * minute], ["30m", 30 * minute], ["1h", hour], ["2h", 2 * hour], ["6h", 6 * hour],
  ["12h", 12 * hour], ["1d", day], ["1w", 7 * day],
];

/** About how many points a chart has room for. */
const points = 720;

/** The finest sampling that a chart of a length has room for. */
export function sampling(length: number): { text: string; ms: number } {
  const [text, ms] = samplings.find(([, ms]) => length / ms <= points) ?? samplings.at(-1)!;
  return { text, ms };
}

export function rangeAt(span: Span, now: number): Range {
  return "range" in span ? span.range : { start: now - periods[span.period], stop: now };
}

/** How often a chart is worth asking for: at most every 15 s, and once a sample. */
export function refresh(span: Span, now: number): number | null {
  if ("range" in span) return null;
  const { start, stop } = rangeAt(span, now);
  return Math.max(15 * second, sampling(stop - start).ms);
}

/** Reads the choice out of an address; a period that is not known is a day. */
export function spanOf(query: URLSearchParams): Span {
  const start = Number(query.get("from"));
  const stop = Number(query.get("to"));
  if (start > 0 && stop > start) return { range: { start, stop } };
  return { period: periodOf(query) };
}

/** The period that an address names, also while a part of it is zoomed in. */
export function periodOf(query: URLSearchParams): Period {
  const period = query.get("p");
  return period !== null && Object.hasOwn(periods, period) ? (period as Period) : "24h";
}

export function queryOf(span: Span): Record<string, string> {
  return "range" in span
    ? { from: String(Math.round(span.range.start)), to: String(Math.round(span.range.stop)) }
    : { p: span.period };
}
