import type { JSX } from "preact";
import { useState } from "preact/hooks";
import * as api from "../api";
import { exact } from "../format";
import { t } from "../i18n";
import { session } from "../session";
import type { NotifyConfig, PublishedAnswer } from "../types.gen";
import { Empty, sentence, useLoad, When } from "../ui";

export function Devices(): JSX.Element {
  const loaded = useLoad(api.notifyConfig);
  return (
    <>
      <h1>{t("notifyTitle")}</h1>
      <When of={loaded}>
        {(config) => Object.keys(config).length === 0
          ? <Empty><p>{t("noNotify")}</p><pre>tsmon tenant import SCHEMA notifications.json</pre></Empty>
          : <Tree config={config} />}
      </When>
    </>
  );
}

/** A version of a device: what the configuration is for. */
interface Device {
  kind: string;
  brand: string;
  version: string;
}

type Events = NotifyConfig[string][string][string];

function Tree({ config }: { config: NotifyConfig }): JSX.Element {
  const [device, setDevice] = useState<Device | null>(null);
  const isChosen = (d: Device) => device !== null && d.kind === device.kind && d.brand === device.brand && d.version === device.version;
  const events = device && config[device.kind]?.[device.brand]?.[device.version];
  return (
    <div class="split">
      <ul class="tree">
        {Object.entries(config).map(([kind, brands]) => (
          <li key={kind}>
            <details open>
              <summary>{kind}</summary>
              <ul>
                {Object.entries(brands).map(([brand, versions]) => (
                  <li key={brand}>
                    <details open>
                      <summary>{brand}</summary>
                      <ul>
                        {Object.entries(versions).map(([version, list]) => (
                          <li key={version}>
                            <button type="button" class="quiet" aria-pressed={isChosen({ kind, brand, version })} onClick={() => setDevice({ kind, brand, version })}>
                              {version} <span class="dim">{t("eventCount", { count: list.length, alarms: list.filter((e) => e.alarm).length })}</span>
                            </button>
                          </li>
                        ))}
                      </ul>
                    </details>
                  </li>
                ))}
              </ul>
            </details>
          </li>
        ))}
      </ul>
      {device && events
        ? <Message key={Object.values(device).join()} device={device} events={events} />
        : <Empty><p>{t("chooseDevice")}</p></Empty>}
    </div>
  );
}

/** What became of a message. */
type Sent = { receipt: PublishedAnswer["data"]; at: number } | { problem: string } | "busy" | null;

function Message({ device, events }: { device: Device; events: Events }): JSX.Element {
  const [alarms, setAlarms] = useState<ReadonlySet<number>>(() => new Set(events.filter((e) => e.alarm).map((e) => e.id)));
  const [source, setSource] = useState("source_0");
  const [topic, setTopic] = useState(defaultTopic(device));
  const [sent, setSent] = useState<Sent>(null);
  const message = { [source]: events.filter((e) => alarms.has(e.id)).map((e) => e.id_event_ts) };
  const toggle = (id: number) => {
    const next = new Set(alarms);
    if (!next.delete(id)) next.add(id);
    setAlarms(next);
  };
  const send = async (e: SubmitEvent) => {
    e.preventDefault();
    setSent("busy");
    try {
      setSent({ receipt: await api.publish(topic, message), at: Date.now() });
    } catch (error) {
      setSent({ problem: sentence(api.asFailure(error)) });
    }
  };
  return (
    <form class="message" onSubmit={(e) => void send(e)}>
      <h2>{device.kind} · {device.brand} · {device.version}</h2>
      <fieldset>
        <legend>{t("alarmEvents")}</legend>
        {events.map((e) => (
          <label class="check" key={e.id}>
            <input type="checkbox" checked={alarms.has(e.id)} onChange={() => toggle(e.id)} /> {t("event", { id: e.id_event_ts })}
            {alarms.has(e.id) !== e.alarm && <span class="dim"> · {t("changed")}</span>}
          </label>
        ))}
      </fieldset>
      <label>{t("topic")} <input value={topic} required spellcheck={false} onInput={(e) => setTopic(e.currentTarget.value)} /></label>
      <label>{t("source")} <input value={source} required pattern="[A-Za-z0-9_]+" spellcheck={false} onInput={(e) => setSource(e.currentTarget.value)} /></label>
      <pre>{JSON.stringify(message)}</pre>
      <button type="submit" class="primary" disabled={sent === "busy"}>{t(sent === "busy" ? "sending" : "send")}</button>
      <Receipt sent={sent} />
    </form>
  );
}

/** Topics begin with the schema unless the tenant's settings say otherwise. */
function defaultTopic(d: Device): string {
  return [session.get()?.schema, d.kind, d.brand, d.version, "config"].map((part) => (part ?? "").replace(/[+#$\s/]+/g, "-")).join("/");
}

function Receipt({ sent }: { sent: Sent }): JSX.Element | null {
  if (sent === null || sent === "busy") return null;
  if ("problem" in sent) return <p class="problem" role="alert">{t("notSent")} {sent.problem}</p>;
  const { topic, reasonCode, matched } = sent.receipt;
  return (
    <p class="notice" role="status">
      {t("sentTo", { topic, time: exact(sent.at) })} {t(matched ? "matched" : "unmatched")} {t("reasonCode", { code: reasonCode })}
    </p>
  );
}
