import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import { t, type Key } from "../i18n";
import type { ReachCell, ReleaseSpread } from "../types.gen";
import { groupReach, type Lot } from "./reach";
import { count } from "./words";

const outcomes: Record<string, Key> = {
  offered: "getsOffered", current: "getsCurrent", ahead: "getsAhead", dropped: "getsDropped", stranded: "getsStranded", unfit: "getsUnfit", misfit: "getsMisfit", broken: "getsBroken",
};
const words: Record<string, Key> = { static: "onStatic", dynamic: "onDynamic", in: "onIn", out: "onOut" };

/** Ways of asking in words. */
function waysOf(text: string): string {
  return text.split(", ").map((way) => way.split(" ").map((part) => {
    const [word = "", more] = part.split("+");
    return (words[word] ? t(words[word]) : word) + (more ? " " + t("onDowngrades") : "");
  }).filter(Boolean).join(" ")).join(", ");
}

/** Kinds of clients, those of one target together. */
function kindsOf(kinds: string[]): string {
  const types = new Map<string, string[]>();
  for (const kind of kinds) {
    const [os = "", arch = "", type = ""] = kind.split("-");
    const found = types.get(os + "-" + arch) ?? [];
    types.set(os + "-" + arch, type ? [...found, type] : found);
  }
  return [...types].map(([target, of]) => (of.length > 0 ? `${target} (${of.join(", ")})` : target)).join(", ");
}

const bad = (l: Lot) => ["stranded", "misfit", "broken"].includes(l.outcome);

interface Props {
  reach: ReachCell[];
  cut: number;
  spread: ReleaseSpread | null;
  percent: number;
  /** Names the table where a page has several. */
  label?: string;
}

/** Who gets what, by what is installed, with the number of clients where it is known. */
export function ReachTable({ reach, cut, spread, percent, label = t("reachTitle") }: Props): JSX.Element {
  const groups = useMemo(() => groupReach(reach, spread && spread.clients > 0 ? spread.groups : null, percent), [reach, spread, percent]);
  const counted = spread !== null && spread.clients > 0;
  if (reach.length === 0) return <p class="dim">{t("reachNone")}</p>;
  return (
    <>
      <div class="scroll" tabIndex={0} role="region" aria-label={label}>
        <table class="plain striped reach">
          <caption class="hidden">{label}</caption>
          <thead><tr><th scope="col">{t("installed")}</th>{counted && <th scope="col" class="number">{t("clients")}</th>}<th scope="col">{t("gets")}</th><th scope="col">{t("onWhat")}</th></tr></thead>
          <tbody>
            {groups.flatMap((g) => g.lots.map((l, i) => (
              <tr key={g.first + i} class={bad(l) ? "wrong" : ""}>
                {i === 0 && <th scope="rowgroup" rowSpan={g.lots.length}>{g.versions > 1 ? `${g.first} – ${g.last} (${g.versions})` : g.first}</th>}
                {counted && <td class="number">{l.clients === null ? "" : l.about + " " + count(l.clients)}</td>}
                <td>
                  {bad(l) && <span aria-hidden="true">▲ </span>}
                  {t(outcomes[l.outcome] ?? "getsBroken", { version: l.offered, error: l.error })}
                  {l.bundle && <div class="dim file">{l.bundle}</div>}
                </td>
                <td>{l.on.map((o) => <div key={o.ways}>{kindsOf(o.kinds)}{o.ways && <span class="dim"> · {waysOf(o.ways)}</span>}</div>)}</td>
              </tr>
            )))}
          </tbody>
        </table>
      </div>
      {cut > 0 && <p class="dim">{t("reachCut", { count: count(cut) })}</p>}
    </>
  );
}
