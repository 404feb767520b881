// Rehearsal: what a move would do, and the command that makes it. The page moves nothing.

import type { JSX } from "preact";
import { useRef, useState } from "preact/hooks";
import { asFailure, type Failure } from "../api";
import { clock, exact } from "../format";
import { t, type Key } from "../i18n";
import type { LogRow, MovePlan, Rehearsal, ReleaseChannel, ReleaseSpread, WaitingPlans } from "../types.gen";
import { Said, sentence } from "../ui";
import { ask } from "./access";
import { ReachTable } from "./table";
import { act, count, rolling } from "./words";

const moves: [move: string, title: Key][] = [["rollback", "moveRollback"], ["pause", "movePause"], ["resume", "moveResume"], ["rollout", "moveRollout"], ["promote", "movePromote"]];

interface Props {
  of: ReleaseChannel;
  others: string[];
  /** Versions that the channel showed, newest first. */
  versions: string[];
  spread: ReleaseSpread | null;
  /** The last entries of the channel's log, newest first. */
  entries: LogRow[];
}

export function Rehearse({ of: c, others, versions, spread, entries }: Props): JSX.Element {
  const [move, setMove] = useState("rollback");
  const head = entries[0]?.sequence ?? 0;
  const [state, setState] = useState<{ busy: boolean; result: Rehearsal | null; error: Failure | null }>({ busy: false, result: null, error: null });
  const [asked, setAsked] = useState(head); // the end of the log as the page knew it
  const submit = (e: SubmitEvent) => {
    e.preventDefault();
    const form = new FormData(e.currentTarget as HTMLFormElement);
    const text = (name: string) => String(form.get(name) ?? "").trim();
    const steps = text("steps").split(/[\s,;%]+/).filter(Boolean).map(Number);
    const want = { move, to: text("to"), from: text("from"), steps, every: steps.length > 1 ? text("every") : "", reason: text("reason") };
    setState({ busy: true, result: null, error: null });
    setAsked(head);
    ask<Rehearsal>(`channels/${c.channel}/rehearse`, want).then(
      (result) => setState({ busy: false, result, error: null }),
      (error: unknown) => setState({ busy: false, result: null, error: asFailure(error) }),
    );
  };
  const choose = (next: string) => { setMove(next); setState({ busy: false, result: null, error: null }); };
  const shares = move === "rollout" || move === "promote";
  return (
    <section class="panel rehearse" aria-label={t("rehearse")}>
      <h2>{t("rehearse")}</h2>
      <p class="dim">{t("rehearseText")}</p>
      <form class="tools" onSubmit={submit}>
        <label>{t("move")} <select name="move" value={move} data-search onChange={(e) => choose(e.currentTarget.value)}>{moves.map(([m, title]) => <option key={m} value={m}>{t(title)}</option>)}</select></label>
        {move === "rollback" && <label>{t("toVersion")} <select name="to"><option value="">{t("versionBefore")}</option>{versions.map((v) => <option key={v} value={v}>{v}</option>)}</select></label>}
        {move === "promote" && <label>{t("fromChannel")} <select name="from">{others.map((o) => <option key={o} value={o}>{o}</option>)}</select></label>}
        {shares && <label>{t("steps")} <input name="steps" class="short" placeholder="5, 25, 100" inputMode="numeric" pattern="[0-9 ,;%]*" required={move === "rollout"} /></label>}
        {shares && <label>{t("everyStep")} <input name="every" class="short" placeholder="6h" defaultValue="6h" pattern="[0-9.]+[smh]([0-9.smh]*)" /></label>}
        <label>{t("reason")} <input name="reason" required={move === "rollback" || move === "pause"} maxLength={500} /></label>
        <button type="submit" class="primary" disabled={state.busy}>{state.busy ? t("rehearsing") : t("rehearse")}</button>
      </form>
      <div aria-live="polite">
        {state.error && <p class="problem" role="alert">{sentence(state.error)}</p>}
        {state.result && (movedSince(state.result, asked, entries) ?? <Result of={state.result} spread={spread} />)}
      </div>
    </section>
  );
}

/** What to say in place of a rehearsal when the channel has moved since, else null. */
function movedSince({ plan }: Rehearsal, asked: number, entries: LogRow[]): JSX.Element | null {
  const head = entries[0]?.sequence ?? 0;
  const begins = plan?.changed ? plan.sequence : asked + 1; // where the log would go on
  if (head < begins) return null;
  const made = plan?.changed && entries.find((e) => e.sequence === plan.sequence && e.action === plan.action && e.version === plan.version);
  return <p class="notice">{made ? t("rehearsedDone", { act: act(made), sequence: made.sequence }) : t("rehearsedMoved")}</p>;
}

function Result({ of: r, spread }: { of: Rehearsal; spread: ReleaseSpread | null }): JSX.Element {
  return (
    <div class="result">
      {r.refusal && (
        <div class="notice" role="alert">
          <p class="flag severe-text">▲ {t("refusedTitle")}</p>
          <p class="dim">{t("itsWords")}</p>
          <p><Said text={r.refusal.text} /></p>
          {r.refusal.mend && <p><Said text={r.refusal.mend} /></p>}
        </div>
      )}
      {r.plan && <Plan of={r.plan} cut={r.reach_cut ?? 0} spread={spread} />}
      {r.plan?.followers?.map((f) => <Plan key={f.channel} of={f} cut={0} spread={null} />)}
      {!r.refusal && <><h3>{t("command")}</h3><Command text={r.command} /><p class="dim">{t("commandWhere")} <code>tsmon.yaml</code>.</p></>}
    </div>
  );
}

function Plan({ of: p, cut, spread }: { of: MovePlan; cut: number; spread: ReleaseSpread | null }): JSX.Element {
  const ahead = p.action === "rollback" ? (p.reach ?? []).filter((r) => r.outcome === "ahead") : [];
  const left = spread && spread.clients > 0 ? spread.versions.filter((v) => ahead.some((r) => r.version === v.version)).reduce((n, v) => n + v.clients, 0) : null;
  return (
    <>
      <p><b>{p.channel}: {p.previous && p.previous !== p.version ? p.previous + " → " : ""}{p.version}</b> {p.changed ? t("planEntry", { sequence: p.sequence }) : t("planNothing")}{p.rollout && `. ${p.rollout.paused ? "" : p.rollout.percent + " % "}${rolling(p.rollout, undefined)}`}</p>
      {p.warnings?.map((w) => <p key={w} class="stale"><span aria-hidden="true">⚠ </span><Said text={w} /></p>)}
      {p.unbound && p.unbound.length > 0 && <p class="stale"><span aria-hidden="true">⚠ </span>{t("planUnbound", { keys: p.unbound.join(", ") })}</p>}
      {ahead.length > 0 && <p class="flag abnormal-text">▲ {t("notReached", { version: p.version })}{left !== null && " " + t("notReachedClients", { count: count(left) })}</p>}
      <ReachTable reach={p.reach ?? []} cut={cut} spread={spread} percent={p.rollout?.percent ?? 100} />
    </>
  );
}

/** A command in a box, to copy. */
export function Command({ text }: { text: string }): JSX.Element {
  const box = useRef<HTMLPreElement>(null);
  const [copied, setCopied] = useState<"" | "copied" | "selected">("");
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      setCopied("copied");
    } catch { // without TLS browsers don't copy: it is selected instead
      getSelection()?.selectAllChildren(box.current!);
      setCopied("selected");
    }
  };
  return (
    <div class="command">
      <pre ref={box} tabIndex={0} aria-label={t("command")}>{text}</pre>
      <button type="button" onClick={copy}>{t(copied || "copy")}</button>
    </div>
  );
}

/** Moves that wait for signatures of operators. */
export function Waits({ of: w }: { of: WaitingPlans }): JSX.Element | null {
  const open = w.plans.filter((p) => !p.stale);
  if (open.length === 0) return null;
  return (
    <section class="panel waits" aria-label={t("waits")}>
      <h2>{t("waits")}</h2>
      <ul>
        {open.map((p) => (
          <li key={p.hash}>
            <p><b>{act(p.entry)}</b> {t("byWho", { who: p.entry.who })}{p.entry.why && <>: {p.entry.halted ? <Said text={p.entry.why} /> : <q>{p.entry.why}</q>}</>}</p>
            <p>{t("signedOf", { has: p.has, needs: p.needs })}{p.signed.length > 0 && `: ${p.signed.join(", ")}`}. {t("maySign", { who: p.missing.join(", ") })} {t("expires")} <time dateTime={p.expires} title={exact(Date.parse(p.expires))}>{clock(Date.parse(p.expires))}</time>.</p>
            <Command text={p.command} />
          </li>
        ))}
      </ul>
    </section>
  );
}
