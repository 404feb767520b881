import type { JSX } from "preact";
import { t } from "../i18n";
import { href, type Route } from "../router";
import type { LogPage, ReleasesOverview, ReleaseSpread, WaitingPlans } from "../types.gen";
import { Age, Empty, Said } from "../ui";
import { ask } from "../releases/access";
import { ChannelState } from "../releases/channel";
import { Rehearse, Waits } from "../releases/rehearse";
import { Spread } from "../releases/spread";
import { Timeline } from "../releases/timeline";
import { Version, Versions } from "../releases/versions";
import { Seen, useWatch } from "../releases/watch";

/** The pages about releases: all channels, one of them, the versions in the store, one of them. */
export function Releases({ route }: { route: Route }): JSX.Element {
  const [, kind = "", name = ""] = route.path;
  return (
    <>
      <nav class="sub" aria-label={t("releases")}>
        <a href={href("releases")} aria-current={kind === "" ? "page" : undefined}>{t("channels")}</a>
        <a href={href("releases/versions")} aria-current={kind === "versions" ? "page" : undefined}>{t("versions")}</a>
      </nav>
      {kind === "channel" ? <Channel key={name} name={name} /> : kind === "versions" ? (name ? <Version key={name} version={name} /> : <Versions />) : <Overview />}
    </>
  );
}

const overview = (signal: AbortSignal) => ask<ReleasesOverview>("overview", undefined, signal);

function Overview(): JSX.Element {
  const watched = useWatch(overview, []);
  return (
    <>
      <h1 class="hidden">{t("releases")}</h1>
      <Seen of={watched}>
        {(o) => (
          <>
            <Alarms of={o} />
            {o.channels.length === 0 && <Empty><p>{t("noChannels")}</p><pre>tsmon release publish DIR</pre></Empty>}
            <div class="channels">{[...o.channels].sort((a, b) => Number(b.version !== "") - Number(a.version !== "")).map((c) => <ChannelState key={c.channel} of={c} heading="h2" />)}</div>
          </>
        )}
      </Seen>
    </>
  );
}

/** What does not verify, first on the page. */
function Alarms({ of: o }: { of: ReleasesOverview }): JSX.Element | null {
  if (o.alarms.length === 0 && !o.away) return null;
  return (
    <div class="alarms" role="alert">
      <ul aria-label={t("alarms")}>
        {o.away && <li>▲ {t("storeAway")} <Age at={Date.parse(o.away)} /></li>}
        {o.alarms.map((a) => (
          <li key={a.object}>▲ <b>{a.object}</b> {t("alarmText")} <Age at={Date.parse(a.since)} /><div><Said text={a.problem} /></div></li>
        ))}
      </ul>
    </div>
  );
}

interface Loaded {
  overview: ReleasesOverview;
  log: LogPage;
  spread: ReleaseSpread | null;
  plans: WaitingPlans;
}

/** Whether an object is of a channel, or of a release that its history names. */
export function concerns(object: string, channel: string, versions: string[]): boolean {
  const [folder = "", version = ""] = object.split("/");
  return folder === "releases" ? versions.includes(version) : object.split("/").includes(channel);
}

function Channel({ name }: { name: string }): JSX.Element {
  const watched = useWatch<Loaded>(async (signal) => {
    const at = "channels/" + encodeURIComponent(name) + "/";
    const [all, log, spread, plans] = await Promise.all([
      overview(signal), ask<LogPage>(at + "log", undefined, signal),
      ask<ReleaseSpread>(at + "adoption", undefined, signal).catch(() => null), // a channel without releases, or records that are away
      ask<WaitingPlans>(at + "plans", undefined, signal).catch(() => ({ plans: [] })),
    ]);
    return { overview: all, log, spread, plans };
  }, [name]);
  return (
    <Seen of={watched}>
      {({ overview: o, log, spread, plans }) => {
        const c = o.channels.find((x) => x.channel === name);
        const versions = [...new Set(log.entries.flatMap((e) => [e.newest, e.version]))].filter((v) => v !== c?.newest);
        return (
          <>
            <Alarms of={{ ...o, alarms: o.alarms.filter((a) => concerns(a.object, name, c ? [c.newest, ...versions] : versions)) }} />
            {c ? <ChannelState of={c} heading="h1" waits={plans.plans.some((p) => !p.stale)} /> : <h1>{name}</h1>}
            <Waits of={plans} />
            {spread && <Spread of={spread} />}
            {c && c.version !== "" && o.rehearses && <Rehearse of={c} others={o.channels.map((x) => x.channel).filter((x) => x !== name)} versions={versions} spread={spread} entries={log.entries} />}
            {log.entries.length > 0 && <Timeline channel={name} page={log} />}
          </>
        );
      }}
    </Seen>
  );
}
