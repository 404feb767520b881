import type { JSX } from "preact";
import { useState } from "preact/hooks";
import * as api from "../api";
import { t } from "../i18n";
import { grantOf, sees } from "../menus";
import { session } from "../session";
import type { Menu, Permission } from "../types.gen";
import { Empty, useLoad, When } from "../ui";

/** Whose view of the menu is shown: a user with a profile, or a profile alone. */
interface Who {
  user: number | null;
  profile: number;
}

export function Access(): JSX.Element {
  const own = session.get();
  const [who, setWho] = useState<Who>({ user: own?.user ?? 0, profile: own?.profile ?? 0 });
  const loaded = useLoad(async () => {
    const rows = who.user === null ? api.permissions("id_profile", who.profile) : api.permissions("id_user", who.user, who.profile);
    const [menus, permissions] = await Promise.all([api.menus(), rows]);
    return { menus, permissions, of: who };
  }, [who.user, who.profile]);
  return (
    <>
      <h1>{t("accessTitle")}</h1>
      <Choose who={who} choose={setWho} />
      <When of={loaded}>
        {({ menus, permissions, of }) => menus.length === 0
          ? <Empty><p>{t("noMenus")}</p><pre>tsmon tenant import SCHEMA menus.json</pre></Empty>
          : <Table menus={menus} permissions={permissions} who={of} />}
      </When>
    </>
  );
}

function Choose({ who, choose }: { who: Who; choose: (who: Who) => void }): JSX.Element {
  const submit = (e: SubmitEvent) => {
    e.preventDefault();
    const form = new FormData(e.currentTarget as HTMLFormElement);
    const user = String(form.get("user")).trim();
    choose({ user: user === "" ? null : Number(user), profile: Number(form.get("profile")) });
  };
  return (
    <form class="tools" onSubmit={submit}>
      <label>{t("user")} <input name="user" type="number" class="short" data-search defaultValue={who.user === null ? "" : String(who.user)} placeholder={t("profileAlone")} /></label>
      <label>{t("profile")} <input name="profile" type="number" class="short" required defaultValue={String(who.profile)} /></label>
      <button type="submit">{t("show")}</button>
      <span class="dim">{t("accessHint")}</span>
    </form>
  );
}

function Table({ menus, permissions, who }: { menus: Menu[]; permissions: Permission[]; who: Who }): JSX.Element {
  const word = (grant: boolean | null) => (grant === null ? <span class="dim">–</span> : t(grant ? "granted" : "denied"));
  return (
    <div class="scroll">
      <table class="plain striped">
        <thead>
          <tr>
            <th scope="col">{t("menuItem")}</th>
            <th scope="col">{t("path")}</th>
            <th scope="col">{t("byProfile", { id: who.profile })}</th>
            {who.user !== null && <th scope="col">{t("byUser", { id: who.user })}</th>}
            <th scope="col">{t("result")}</th>
          </tr>
        </thead>
        <tbody>
          {menus.map((m) => {
            const user = grantOf(permissions, m.id, "id_user");
            const profile = grantOf(permissions, m.id, "id_profile");
            return (
              <tr key={m.id}>
                <th scope="row">{m.name} {!m.status && <span class="dim">({t("inactive")})</span>}</th>
                <td class="dim">{m.path}</td>
                <td>{word(profile)}</td>
                {who.user !== null && <td>{word(user)}</td>}
                <td>{sees(permissions, m) ? <b>✓ {t("sees")}</b> : <span>– {t("seesNot")}</span>}</td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </div>
  );
}
