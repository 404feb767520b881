// What the guard thinks of a release, in plain words of the page's language.

import { t } from "../i18n";
import type { GuardOpinion } from "../types.gen";
import { count, share } from "./words";

/** How bad a failing share is. */
export type Alarm = "" | "abnormal" | "severe";

/** A halt or a share that is surely above the limit is severe; one that is above it so far is abnormal. */
export function alarmOf(g: GuardOpinion): Alarm {
  const { failing, limit } = g.verdict;
  if (failing.of === 0) return "";
  if (g.decision === "halt" || failing.low > limit) return "severe";
  return failing.count / failing.of > limit ? "abnormal" : "";
}

/**
 * The opinion as sentences, the most important first. rolling is whether a rollout is
 * under way: without one there is no next step that could wait.
 */
export function opinionOf(g: GuardOpinion, rolling: boolean): string[] {
  const v = g.verdict;
  if (v.limit >= 1) return [t("guardOff")];
  if (v.failing.of === 0 && v.needed === 0) return rolling ? [t("guardNobody")] : [];
  const before = { version: g.before ?? "", count: count(v.before?.count ?? 0), of: count(v.before?.of ?? 0), limit: share(v.limit) };
  const said: string[] = [];
  if (v.decision === "halt") {
    const cause = v.cause === "before" ? "guardHaltBefore" : v.cause === "waiting" ? "guardHaltWaiting" : v.cause === "settled" ? "guardHaltSettled" : "guardHaltLimit";
    said.push(t(cause, before));
    if (g.decision !== "halt") said.push(t("guardNetworks", { count: count((v.cause === "waiting" ? g.networks?.fetched : g.networks?.failing) ?? 0), needed: count(g.networks_required ?? 0) }));
  } else if (rolling && v.decision === "wait") {
    if (v.cause === "evidence") said.push(t("guardWaitEvidence", { needed: count(v.needed), outcomes: count(v.outcomes) }));
    else said.push(t(v.cause === "early" ? "guardWaitEarly" : "guardWaitWaiting", before));
  } else if (rolling) said.push(t(g.decision === "continue" ? "guardContinue" : "guardFull"));
  if (v.to_halt !== undefined && v.to_halt > 0) said.push(t("guardToHalt", { count: count(v.to_halt) }));
  if (v.first) said.push(t("guardFirst"));
  return said;
}
