// The releases in the store, and one with its bundles.

import type { JSX } from "preact";
import { exact } from "../format";
import { t } from "../i18n";
import { href } from "../router";
import type { ReleaseSpread, ReleaseVersion, ReleaseVersions } from "../types.gen";
import { Age, Empty } from "../ui";
import { ask } from "./access";
import { Seen, useWatch } from "./watch";
import { count, sentenceOf, size } from "./words";

type Row = ReleaseVersions["versions"][number];

export function Versions(): JSX.Element {
  const watched = useWatch((signal) => ask<ReleaseVersions>("versions", undefined, signal), []);
  return (
    <>
      <h1 class="hidden">{t("versions")}</h1>
      <Seen of={watched}>
        {(v) => v.versions.length === 0
          ? <Empty><p>{t("noVersions")}</p><pre>tsmon release publish DIR</pre></Empty>
          : (
            <div class="scroll" tabIndex={0} role="region" aria-label={t("versions")}>
              <table class="plain striped">
                <thead><tr><th scope="col">{t("version")}</th><th scope="col">{t("published")}</th><th scope="col" class="number">{t("size")}</th><th scope="col">{t("shownBy")}</th></tr></thead>
                <tbody>
                  {v.versions.map((r) => (
                    <tr key={r.version}>
                      <th scope="row">{r.staged.length > 0 ? r.version : <a href={href("releases/versions/" + r.version)}>{r.version}</a>}</th>
                      <td>{r.date ? <Age at={Date.parse(r.date)} /> : "–"}</td>
                      <td class="number">{size(r.size)}</td>
                      <td>{standing(r)}</td>
                    </tr>
                  ))}
                </tbody>
              </table>
              {v.more > 0 && <p class="dim">{t("moreVersions", { count: count(v.more) })}</p>}
            </div>
          )}
      </Seen>
    </>
  );
}

/** The channels that show a version, those of rollouts with their share. */
const shownBy = (r: Row): string => [...r.channels, ...Object.entries(r.rollouts).map(([channel, percent]) => `${channel} ${percent} %`)].join(", ");

function standing(r: Row): JSX.Element {
  return (
    <>
      {shownBy(r)}
      {r.rolled_back.length > 0 && <span class="flag abnormal-text"> {t("rolledBack", { channels: r.rolled_back.join(", ") })}</span>}
      {r.pruned && <span class="dim"> {t("prunedText")}</span>}
      {r.staged.length > 0 && <span class="dim"> {t("staged", { targets: r.staged.join(", ") })}</span>}
    </>
  );
}

export function Version({ version }: { version: string }): JSX.Element {
  const watched = useWatch(async (signal) => {
    const [detail, all] = await Promise.all([
      ask<ReleaseVersion>("versions/" + encodeURIComponent(version), undefined, signal), ask<ReleaseVersions>("versions", undefined, signal),
    ]);
    const row = all.versions.find((r) => r.version === version);
    const left = await Promise.all((row?.rolled_back ?? []).map(async (channel) => {
      const spread = await ask<ReleaseSpread>(`channels/${channel}/adoption`, undefined, signal).catch(() => null);
      return { channel, clients: spread?.clients ? spread.versions.find((x) => x.version === version)?.clients ?? 0 : null };
    }));
    return { v: detail, row, left };
  }, [version]);
  return (
    <Seen of={watched}>
      {({ v, row, left }) => (
        <>
          <h1>{v.version}</h1>
          {left.map((l) => (
            <p key={l.channel} class="flag abnormal-text">▲ {sentenceOf(t("rolledBack", { channels: l.channel }))}.{l.clients !== null && " " + t("stillHave", { count: count(l.clients) })}</p>
          ))}
          {row && (row.channels.length > 0 || Object.keys(row.rollouts).length > 0) && <p>{t("shownBy")}: {shownBy(row)}</p>}
          <p class="dim">{exact(Date.parse(v.pub_date))}, {v.who}</p>
          {v.notes && <pre tabIndex={0}>{v.notes}</pre>}
          <div class="scroll" tabIndex={0} role="region" aria-label={t("bundles")}>
            <table class="plain striped">
              <caption class="hidden">{t("bundles")}</caption>
              <thead><tr><th scope="col">{t("file")}</th><th scope="col">{t("platforms")}</th><th scope="col" class="number">{t("size")}</th><th scope="col">{t("signedWith")}</th></tr></thead>
              <tbody>
                {v.bundles.map((b) => (
                  <tr key={b.name}>
                    <th scope="row">{b.name}</th>
                    <td>{b.keys.join(", ") || t("firstInstalls")}</td>
                    <td class="number">{size(b.size)}</td>
                    <td>
                      {b.key_id ? <><code>{b.key_id}</code> {b.trusted ? <>✓ {t("trusted")}</> : <span class="flag severe-text">▲ {t("untrusted")}</span>}{!b.bound && <span class="flag abnormal-text"> {t("unbound")}</span>}</> : "–"}
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        </>
      )}
    </Seen>
  );
}
