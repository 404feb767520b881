// The log of a channel; each entry opens.

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { t } from "../i18n";
import type { LogDetail, LogPage, LogRow } from "../types.gen";
import { Age, Said, useLoad, When } from "../ui";
import { ask } from "./access";
import { ReachTable } from "./table";
import { act, isLink } from "./words";

interface Props {
  channel: string;
  page: LogPage;
}

export function Timeline({ channel, page }: Props): JSX.Element {
  const [older, setOlder] = useState<LogPage[]>([]);
  const [failed, setFailed] = useState(false);
  const known = page.entries.at(-1)?.sequence ?? 0;
  const entries = [...page.entries, ...older.flatMap((p) => p.entries).filter((e) => e.sequence < known)];
  const more = (older.at(-1) ?? page).more;
  const load = () => {
    setFailed(false);
    ask<LogPage>(`channels/${channel}/log?before=${entries.at(-1)?.sequence ?? 0}`).then((p) => setOlder((before) => [...before, p]), () => setFailed(true));
  };
  return (
    <section aria-label={t("history")}>
      <h2>{t("history")}</h2>
      <ol class="timeline">{entries.map((e) => <Entry key={e.sequence} channel={channel} of={e} />)}</ol>
      {failed && <p class="problem" role="alert">{t("failedTitle")}</p>}
      {more && <button type="button" onClick={load}>{t("older")}</button>}
    </section>
  );
}

function Entry({ channel, of: e }: { channel: string; of: LogRow }): JSX.Element {
  const [open, setOpen] = useState(false);
  return (
    <li class="panel">
      <details open={open} onToggle={(event) => setOpen(event.currentTarget.open)}>
        <summary>
          <span class="dim">{e.sequence}</span> <b>{act(e)}</b>
          {e.halted && <span class="flag severe-text"> ▲ {t("halted")}</span>}
          {" "}<span class="dim">{e.who}{e.needs > 0 && ` (${t("signedOf", { has: e.signed_by.length, needs: e.needs })})`}</span>
          {e.why && (e.halted ? <span class="why"><Said text={e.why} /></span> : <q class="why">{e.why}</q>)}
        </summary>
        {open && <Opened channel={channel} sequence={e.sequence} />}
      </details>
      <Age at={Date.parse(e.when)} />
    </li>
  );
}

function Opened({ channel, sequence }: { channel: string; sequence: number }): JSX.Element {
  const loaded = useLoad(() => ask<LogDetail>(`channels/${channel}/log/${sequence}`), [channel, sequence]);
  return <When of={loaded}>{(d) => <Detail of={d} />}</When>;
}

function Detail({ of: d }: { of: LogDetail }): JSX.Element {
  const o = d.origin;
  const place = (text: string) => (isLink(text) ? <a href={text} rel="noreferrer noopener">{text}</a> : <code>{text}</code>);
  return (
    <div class="opened">
      <dl>
        {o?.commit && <><dt>{t("commit")}</dt><dd><code>{o.commit}</code></dd></>}
        {o?.repository && <><dt>{t("repository")}</dt><dd>{place(o.repository)}</dd></>}
        {o?.run && <><dt>{t("run")}</dt><dd>{place(o.run)}</dd></>}
        <dt>{t("signatures")}</dt>
        <dd>{d.signed_by.length > 0 ? d.signed_by.join(", ") : t("signedNobody")}{d.needs > 0 && ` (${t("signedOf", { has: d.signed_by.length, needs: d.needs })})`}</dd>
      </dl>
      <h3>{t("reachTitle")}</h3>
      <ReachTable reach={d.reach} cut={d.reach_cut ?? 0} spread={null} percent={d.rollout?.percent ?? 100} label={`${d.sequence}: ${t("reachTitle")}`} />
      {d.changes.length > 0 && (
        <>
          <h3>{t("changes")}</h3>
          <div class="scroll" tabIndex={0} role="region" aria-label={`${d.sequence}: ${t("changes")}`}>
            <table class="plain changes">
              <thead><tr><th scope="col">{t("member")}</th><th scope="col">{t("was")}</th><th scope="col">{t("became")}</th></tr></thead>
              <tbody>{d.changes.map((c) => <tr key={c.place}><th scope="row">{c.place}</th><td>{c.before || "–"}</td><td>{c.after || "–"}</td></tr>)}</tbody>
            </table>
          </div>
        </>
      )}
      <details><summary>latest.json</summary><pre tabIndex={0}>{JSON.stringify(d.manifest, null, 2)}</pre></details>
      {d.rolling && <details><summary>{t("rollingManifest")}</summary><pre tabIndex={0}>{JSON.stringify(d.rolling, null, 2)}</pre></details>}
    </div>
  );
}
