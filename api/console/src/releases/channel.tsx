// A channel as the overview and its own page show it.

import type { JSX } from "preact";
import { t } from "../i18n";
import { href } from "../router";
import type { LogRow, ReleaseChannel, ReleaseShare } from "../types.gen";
import { Age } from "../ui";
import { FailingShare } from "./spread";
import { alarmOf } from "./verdict";
import { act, count, isLink, rolling, sentenceOf } from "./words";

interface Props {
  of: ReleaseChannel;
  heading: "h1" | "h2";
  /** Whether a move waits for signatures. */
  waits?: boolean;
}

export function ChannelState({ of: c, heading: H, waits = false }: Props): JSX.Element {
  const name = H === "h2" ? <a href={href("releases/channel/" + c.channel)}>{c.channel}</a> : c.channel;
  if (!c.version) {
    return (
      <section class="panel channel" aria-label={c.channel}>
        <H>{name}</H>
        {waits ? <p class="dim">{t("channelWaits")}</p> : <><p class="dim">{t("channelEmpty")}</p><pre>tsmon release publish --channel {c.channel} DIR</pre></>}
      </section>
    );
  }
  const rollout = c.rollout;
  const bad = c.adoption?.guard && alarmOf(c.adoption.guard);
  return (
    <section class={"panel channel " + (bad || "")} aria-label={c.channel}>
      <H>{name} <b>{c.newest}</b></H>
      {rollout ? <Rollout of={rollout} next={c.next_step} others={c.version} /> : <p>{t("everybody")}</p>}
      <p class="dim">
        {c.since && <>{t("since")} <Age at={Date.parse(c.since)} />. </>}
        {c.last && <Last of={c.last} />}
        {c.last && c.since !== c.last.when && <> · <Age at={Date.parse(c.last.when)} /></>}
      </p>
      {c.last?.action === "rollback" && c.last.from && (
        <p class="flag abnormal-text">▲ {t("wasRolledBack", { version: c.last.from })}{c.adoption && c.adoption.clients > 0 && " " + t("stillHave", { count: count(c.adoption.left ?? 0) })}</p>
      )}
      {!c.shown && <p class="flag severe-text">▲ {t("notShown")}</p>}
      {c.behind && <p class="flag abnormal-text">▲ {t("behind")}</p>}
      {c.last?.halted && rollout?.paused && <p class="flag severe-text">▲ {t("halted")}</p>}
      {c.adoption && <Spread of={c} />}
      <Coverage of={c} />
    </section>
  );
}

/** Who moved the channel last, and why. */
export function Last({ of: e }: { of: LogRow }): JSX.Element {
  return <>{act(e)} {t("byWho", { who: e.who })}{e.origin?.run && isLink(e.origin.run) && <>, <a href={e.origin.run} rel="noreferrer noopener">{t("run")}</a></>}{e.why && <>: <q>{e.why}</q></>}</>;
}

/** One bar with the steps of a rollout and the share that has been reached. */
function Rollout({ of: r, next, others }: { of: ReleaseShare; next: number | undefined; others: string }): JSX.Element {
  return (
    <div class="rollout">
      <p><b>{r.percent} %</b> {rolling(r, next)}. {t("othersGet", { version: others })}</p>
      <svg viewBox="0 0 100 4" preserveAspectRatio="none" aria-hidden="true">
        <rect class="scale" width="100" height="4" />
        <rect class={r.paused ? "fill abnormal" : "fill"} width={r.percent} height="4" />
        {r.steps.filter((step) => step < 100).map((step) => <rect key={step} class="step" x={step - 0.15} width="0.3" height="4" />)}
      </svg>
    </div>
  );
}

function Spread({ of: c }: { of: ReleaseChannel }): JSX.Element {
  const a = c.adoption!;
  if (a.clients === 0) return <p class="dim">{t("noClients")}</p>;
  const n = a.newest;
  return (
    <>
      <p>
        {sentenceOf(t("hasIt", { have: count(a.have), clients: count(a.clients) }))}
        {n.waiting > 0 && <> · {t("waitingFor", { count: count(n.waiting) })}</>}
        {n.kept > 0 && <> · <span class="flag abnormal-text">{t("cameToNothing", { count: count(n.kept) })}</span></>}
      </p>
      {a.guard && <FailingShare of={a.guard} />}
    </>
  );
}

const systems: Record<string, string> = { windows: "Windows", darwin: "macOS", linux: "Linux" };

/** The type of a bundle by its name, for a platform key that names none. */
function typeOf(file: string): string {
  const ends: [RegExp, string][] = [[/\.AppImage/, "appimage"], [/\.msi/, "msi"], [/\.exe/, "nsis"], [/\.deb/, "deb"], [/\.rpm/, "rpm"], [/\.app\.tar/, "app"]];
  return ends.find(([end]) => end.test(file))?.[1] ?? "";
}

interface Covered {
  target: string;
  types: string[];
  lacking: { type: string; clients: number }[];
  missing: boolean;
}

/** What a release is for, and whom it leaves out, by target. */
export function coverage(c: ReleaseChannel): Covered[] {
  const rows = new Map<string, Covered>();
  const row = (key: string) => {
    const [os = "", arch = "", type = ""] = key.split("-");
    const target = os + "-" + arch;
    const found = rows.get(target) ?? { target, types: [], lacking: [], missing: false };
    rows.set(target, found);
    return { found, type };
  };
  c.platforms.forEach((key, i) => {
    const { found, type } = row(key);
    const kind = type || typeOf(c.files[i] ?? "");
    if (kind && !found.types.includes(kind)) found.types.push(kind);
  });
  for (const key of c.missing) {
    const { found, type } = row(key);
    if (type) found.lacking.push({ type, clients: 0 });
    else found.missing = true;
  }
  for (const [key, clients] of Object.entries(c.adoption?.unserved ?? {})) {
    const { found, type } = row(key);
    if (!found.lacking.some((l) => l.type === type)) found.lacking.push({ type, clients });
  }
  return [...rows.values()].sort((a, b) => a.target.localeCompare(b.target));
}

function Coverage({ of: c }: { of: ReleaseChannel }): JSX.Element {
  return (
    <ul class="coverage" aria-label={t("coverage")}>
      {coverage(c).map((r) => {
        const [os = "", arch = ""] = r.target.split("-");
        return (
          <li key={r.target}>
            <b>{systems[os] ?? os}</b> <span class="dim">{arch}</span> {r.missing ? <span class="flag severe-text">▲ {t("missing")}</span> : <>✓ {r.types.join(" ")}</>}
            {r.lacking.map((l) => <span key={l.type} class="flag abnormal-text"> – {l.type}{l.clients > 0 && " (" + t("clientsOf", { count: count(l.clients) }) + ")"}</span>)}
          </li>
        );
      })}
    </ul>
  );
}
