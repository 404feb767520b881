// How values and times are shown: the display rules of the interface.

import { locale, t } from "./i18n";
import type { VarsTs } from "./types.gen";

/** Reports whether a value counts as missing: null, undefined, empty or not numeric. */
export function isMissing(value: unknown): boolean {
  if (value === null || value === undefined || value === "") return true;
  return typeof value === "boolean" ? false : !Number.isFinite(Number(value));
}

/** Reports whether a variable is a state, which is shown as on or off. */
export function isState(varsTs: VarsTs | undefined): boolean {
  const field = (varsTs as { calc_field?: unknown } | undefined)?.calc_field;
  return typeof field === "string" && (field === "status" || field === "estados_0" || field.includes("estado"));
}

/** A value as it is shown. */
export interface Shown {
  text: string;
  unit: string;
  missing: boolean;
}

export function show(value: unknown, varsTs?: VarsTs, unit?: string | null): Shown {
  if (isMissing(value)) return { text: t("noData"), unit: "", missing: true };
  if (isState(varsTs)) return { text: t(Number(value) === 1 ? "on" : "off"), unit: "", missing: false };
  return { text: number(Number(value)), unit: unit ?? "", missing: false };
}

type Formats = { number: Intl.NumberFormatOptions; time: Intl.DateTimeFormatOptions };

const formats = new Map<string, Intl.NumberFormat | Intl.DateTimeFormat>();

/** Returns a format in the locale. It is kept: making one takes longer than using it. */
function format<K extends keyof Formats>(kind: K, options: Formats[K]): K extends "number" ? Intl.NumberFormat : Intl.DateTimeFormat;
function format(kind: keyof Formats, options: object): Intl.NumberFormat | Intl.DateTimeFormat {
  const key = locale() + kind + JSON.stringify(options);
  let found = formats.get(key);
  if (!found) {
    found = kind === "number" ? new Intl.NumberFormat(locale(), options) : new Intl.DateTimeFormat(locale(), options);
    formats.set(key, found);
  }
  return found;
}

/** Four significant digits, or more where they stand before the decimal point. */
export function number(value: number): string {
  const size = Math.abs(value);
  const digits = size >= 1000 ? 0 : size >= 100 ? 1 : size >= 10 ? 2 : 3;
  return format("number", { maximumFractionDigits: digits }).format(Object.is(value, -0) ? 0 : value);
}

/** A time as hours, with the day if it is not today. */
export function clock(ms: number, now = Date.now()): string {
  const today = new Date(ms).toDateString() === new Date(now).toDateString();
  const options: Intl.DateTimeFormatOptions = today
    ? { hour: "numeric", minute: "2-digit" }
    : { day: "2-digit", month: "short", hour: "numeric", minute: "2-digit" };
  return format("time", options).format(ms);
}

export function exact(ms: number): string {
  return format("time", { dateStyle: "medium", timeStyle: "medium" }).format(ms);
}

/** A time in the past in words: 12 seconds ago. */
export function ago(ms: number, now = Date.now()): string {
  const words = new Intl.RelativeTimeFormat(locale(), { numeric: "always", style: "narrow" });
  const seconds = Math.max(0, Math.round((now - ms) / 1000));
  if (seconds < 90) return words.format(-seconds, "second");
  if (seconds < 90 * 60) return words.format(-Math.round(seconds / 60), "minute");
  if (seconds < 36 * 3600) return words.format(-Math.round(seconds / 3600), "hour");
  return words.format(-Math.round(seconds / 86400), "day");
}
