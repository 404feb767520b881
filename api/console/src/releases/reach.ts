// The table of a plan: who gets what, grouped as the command prints it.

import type { ReachCell, ReleaseSpread } from "../types.gen";

/** What some clients get, whatever they have. */
export interface Lot {
  outcome: string;
  offered: string;
  bundle: string;
  error: string;
  /** Kinds of clients by how they ask: "" for all of them. */
  on: { ways: string; kinds: string[] }[];
  /** How many clients that are, as far as is known; null if nothing is. */
  clients: number | null;
  /** Whether the number is the most that it can be, or an estimate. */
  about: "" | "≈" | "≤";
}

/** Installed versions whose clients get the same. */
export interface Group {
  first: string;
  last: string;
  versions: number;
  lots: Lot[];
}

const outcomeOf = (c: ReachCell) => JSON.stringify([c.outcome, c.offered ?? "", c.bundle ?? "", c.error ?? ""]);
const kindOf = (c: ReachCell) => c.target + (c.bundle_type ? "-" + c.bundle_type : "");
const wayOf = (c: ReachCell) => c.address + (c.downgrades ? "+downgrades" : "") + " " + (c.rollout ?? "");

/** Groups the cells, which come sorted by version. percent is the share of a rollout. */
export function groupReach(cells: ReachCell[], counts: ReleaseSpread["groups"] | null, percent: number): Group[] {
  const groups: { versions: string[]; cells: ReachCell[]; same: string }[] = [];
  for (let i = 0; i < cells.length;) {
    const version = cells[i]!.version;
    const mine: ReachCell[] = [];
    for (; i < cells.length && cells[i]!.version === version; i++) mine.push(cells[i]!);
    const same = mine.map((c) => kindOf(c) + wayOf(c) + outcomeOf(c)).join("\n");
    const before = groups.at(-1);
    if (before?.same === same) before.versions.push(version);
    else groups.push({ versions: [version], cells: mine, same });
  }
  return groups.map((g) => ({
    first: g.versions[0]!, last: g.versions.at(-1)!, versions: g.versions.length, lots: lotsOf(g.cells, g.versions, counts, percent),
  }));
}

function lotsOf(cells: ReachCell[], versions: string[], counts: ReleaseSpread["groups"] | null, percent: number): Lot[] {
  const all = new Set(cells.map(wayOf));
  const lots = new Map<string, ReachCell[]>();
  for (const c of cells) lots.set(outcomeOf(c), [...(lots.get(outcomeOf(c)) ?? []), c]);
  return [...lots].map(([key, mine]) => {
    const [outcome, offered, bundle, error] = JSON.parse(key) as [string, string, string, string];
    const ways = new Map<string, Set<string>>(); // by kind
    for (const c of mine) ways.set(kindOf(c), (ways.get(kindOf(c)) ?? new Set()).add(wayOf(c)));
    const on = new Map<string, string[]>();
    for (const [kind, asked] of ways) {
      const text = waysText(asked, all);
      on.set(text, [...(on.get(text) ?? []), kind]);
    }
    const known = counts && numberOf(ways, all, versions, counts, percent);
    return { outcome, offered, bundle, error, on: [...on].map(([w, kinds]) => ({ ways: w, kinds })), clients: known ? known.clients : null, about: known ? known.about : "" };
  });
}

/** Names ways of asking: all of them, all of one address, all of one side of a rollout, or each. */
function waysText(asked: Set<string>, all: Set<string>): string {
  if (asked.size === all.size) return "";
  for (const part of [0, 1]) {
    const parts = new Set([...asked].map((way) => way.split(" ")[part]!));
    if ([...all].filter((way) => parts.has(way.split(" ")[part]!)).length === asked.size) return [...parts].join(", ");
  }
  return [...asked].join(", ");
}

/** Counts the clients of a lot. Where a rollout decides, its share of them is an estimate. */
function numberOf(ways: Map<string, Set<string>>, all: Set<string>, versions: string[], counts: ReleaseSpread["groups"], percent: number): { clients: number; about: Lot["about"] } {
  const installed = new Set(versions);
  let clients = 0;
  let about: Lot["about"] = "";
  for (const [kind, asked] of ways) {
    const n = counts.filter((c) => installed.has(c.version) && c.target + (c.type ? "-" + c.type : "") === kind).reduce((sum, c) => sum + c.clients, 0);
    if (n === 0) continue;
    const side = waysText(asked, all);
    if (side === "in" || side === "out") {
      clients += (n * (side === "in" ? percent : 100 - percent)) / 100;
      about ||= "≈";
    } else {
      clients += n;
      if (side !== "") about = "≤"; // which address a client asks is not known
    }
  }
  return { clients: Math.round(clients), about };
}
