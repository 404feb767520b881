// How releases are put in words.

import { clock, number } from "../format";
import { locale, t, type Key } from "../i18n";
import type { GuardOpinion, LogRow, ReleaseShare } from "../types.gen";

export const count = (n: number): string => new Intl.NumberFormat(locale()).format(n);

/** A share from 0 to 1 as a percentage. */
export const share = (x: number): string => new Intl.NumberFormat(locale(), { style: "percent", maximumFractionDigits: x < 0.1 ? 1 : 0 }).format(x);

/** Bytes, in the unit that people read. */
export function size(bytes: number): string {
  const units = ["byte", "kilobyte", "megabyte", "gigabyte"] as const;
  const n = Math.min(units.length - 1, Math.max(0, Math.floor(Math.log10(Math.max(1, bytes)) / 3)));
  return new Intl.NumberFormat(locale(), { style: "unit", unit: units[n]!, unitDisplay: n === 0 ? "long" : "short", maximumFractionDigits: n === 0 ? 0 : 1 }).format(bytes / 1000 ** n);
}

const actions: Record<string, Key> = {
  publish: "actPublish", promote: "actPromote", follow: "actFollow", rollback: "actRollback", rollout: "actRollout", pause: "actPause", resume: "actResume",
  repair: "actRepair", prune: "actPrune", appoint: "actAppoint",
};

/** What an entry did, as a sentence begins. */
export const act = (e: Parameters<typeof phrase>[0]): string => sentenceOf(phrase(e));

function phrase(e: Pick<LogRow, "action" | "version" | "newest" | "from" | "rollout" | "pruned">): string {
  const key = actions[e.action];
  if (!key) return e.action + " " + e.newest;
  const percent = e.rollout ? e.rollout.percent + " %" : "100 %";
  const text = t(key, { version: e.action === "rollback" ? e.version : e.newest, from: e.from ?? "", percent, pruned: (e.pruned ?? []).join(", ") });
  return e.rollout && ["publish", "promote"].includes(e.action) ? text + " " + t("toShare", { percent }) : text;
}

/** The text as a sentence begins. */
export const sentenceOf = (text: string): string => text.slice(0, 1).toLocaleUpperCase(locale()) + text.slice(1);

/** How a rollout stands, as a phrase. */
export function rolling(r: ReleaseShare, next: number | undefined): string {
  if (r.paused) return t("rolloutPaused");
  if (next !== undefined && next > 0 && r.due) return t("rolloutNext", { percent: r.percent, next, time: clock(Date.parse(r.due)) });
  return t("rolloutAt", { percent: r.percent });
}

/** The failing share of a release beside the one before, as a phrase. */
export function failing(g: GuardOpinion): string {
  const { failing: now, before, limit } = g.verdict;
  if (now.of === 0) return t("failingNone");
  const text = t("failingNow", { count: count(now.count), of: count(now.of), share: share(now.count / now.of), limit: share(limit) });
  return before && before.of > 0 ? text + " " + t("failingBefore", { share: share(before.count / before.of), version: g.before ?? "" }) : text;
}

/** Only addresses of the web become links: the log is written by many. */
export const isLink = (address: string): boolean => /^https?:\/\//i.test(address);

export { number };
