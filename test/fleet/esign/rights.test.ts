/** Signing, finalizing, exporting, holding and shredding are rights of their own: what each role really may do, and what the matrix of rights says of it. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { CLIENT_ROLES, type ClientRole, isRoleOfPerson } from "../../../shared/protocol/roles.ts";
import { connect, type FleetClient, nonceOfStatement } from "../../../shared/sdk/sdk.ts";
import { type EsignFleet, startEsignFleet } from "../../harness/esign/esign-fleet.ts";
import { callCli } from "../../services/cli/call.ts";

const CALLS_MS = 300_000;
const POLL = { timeout: 90_000 };
const CALL = { deadlineMs: 60_000 };

/** The rights that are apart from each other. */
const APART = ["finalize", "sign", "hold", "shred", "export"] as const;
type Apart = (typeof APART)[number];

/** Read again when the rights of a role are changed on purpose. */
const EXPECTED: Readonly<Record<ClientRole, readonly Apart[]>> = {
  agent: ["finalize"],
  orchestrator: ["finalize"],
  operator: ["finalize", "sign", "hold", "shred", "export"],
  reviewer: ["finalize", "sign"],
  custodian: ["hold", "shred", "export"],
  observer: [],
  runner: [],
};

interface Holder {
  readonly role: ClientRole;
  readonly principal: string;
  /** Of the credentials. */
  readonly id: string;
  readonly credentials: string;
  readonly client: FleetClient;
}

let fleet: EsignFleet;
const holders: Holder[] = [];

const cli = (line: string, env: Record<string, string> = {}) =>
  callCli(line.split(" "), {
    env: { FLEET_URL: fleet.server.url, FLEET_HOME: fleet.server.home, ...env },
  });

/** The home of a user of another machine: nothing but the credentials says what the holder may do. */
const elsewhere = () => ({ FLEET_HOME: join(fleet.folder, "elsewhere") });

async function holderOf(role: ClientRole): Promise<Holder> {
  const name = `the-${role}`;
  const credentials = join(fleet.folder, `${role}.creds`);
  const issued = await cli(`access issue --agent ${name} --role ${role} --out ${credentials} --json`);
  expect({ exit: issued.exit, err: issued.err }).toMatchObject({ exit: 0 });
  const { id } = JSON.parse(issued.out) as { id: string };
  const client = await connect({
    ...{ url: fleet.server.url, credentials, fallback: "none", env: elsewhere(), onWarning: () => {} },
  });
  return { role, principal: isRoleOfPerson(role) ? `human=${name}` : name, id, credentials, client };
}

beforeAll(async () => {
  fleet = await startEsignFleet();
  for (const role of CLIENT_ROLES) holders.push(await holderOf(role));
}, CALLS_MS);
afterAll(async () => {
  await Promise.all(holders.map(({ client }) => client.close()));
  await fleet?.stop();
});

const exported = ({ role }: Holder) => join(fleet.folder, `${role}.jsonl`);

/** Each on a task of its own, so that no act is in the way of another one. */
const ATTEMPTS: Readonly<
  Record<Apart, (holder: Holder, task: string, checkpoint: string) => Promise<unknown>>
> = {
  finalize: ({ client }, _, checkpoint) => client.finalizeCheckpoint(checkpoint, "succeeded", CALL),
  sign: async ({ client }, task) => {
    // A person with the right made the statement: the credentials that send it decide.
    const statement = await fleet.statementFor(await fleet.newCaller(), task);
    const token = await fleet.provider.token({ nonce: nonceOfStatement(statement) });
    return await client.admin.esign.add(statement, token, CALL);
  },
  hold: ({ client }, task) =>
    client.admin.retention.hold(task, { hold: "case-7", reason: "litigation", ...CALL }),
  shred: ({ client }, task) => client.admin.retention.requestShred(task, { reason: "erasure", ...CALL }),
  export: async (holder, task) => {
    const env = { ...elsewhere(), FLEET_NATS_CREDS: holder.credentials };
    const { exit, err } = await cli(`export --task ${task} --out ${exported(holder)} --json`, env);
    if (exit === 77) expect(err).toContain("access matrix --right export");
    if (exit === 77) throw Object.assign(new Error(err), { code: "FORBIDDEN" });
    expect({ exit, err }).toMatchObject({ exit: 0 });
  },
};

async function mayReally(holder: Holder, right: Apart): Promise<boolean> {
  const task = `${right}-${holder.role}`;
  const checkpoint = await fleet.written(task);
  try {
    await ATTEMPTS[right](holder, task, checkpoint);
    return true;
  } catch (error) {
    expect(error, task).toMatchObject({ code: "FORBIDDEN" });
    return false;
  }
}

test("each role may do exactly what the matrix says of it", { timeout: CALLS_MS }, async () => {
  const { out } = await cli("access matrix --json");
  const { principals } = JSON.parse(out) as { principals: { name: string; rights: string[] }[] };
  for (const holder of holders) {
    const done: Apart[] = [];
    for (const right of APART) if (await mayReally(holder, right)) done.push(right);
    expect(done, holder.role).toEqual(EXPECTED[holder.role]);
    const listed = principals.find(({ name }) => name === holder.principal)?.rights ?? [];
    expect(
      APART.filter((right) => listed.includes(right)),
      holder.role,
    ).toEqual(done);
  }
});

test("a person without the right to sign is refused before any login", { timeout: CALLS_MS }, async () => {
  const task = "before-login";
  await fleet.written(task);
  for (const { role, client, credentials, id } of holders) {
    const request = client.admin.esign.request({ taskId: task, ...CALL });
    if (EXPECTED[role].includes("sign")) {
      expect(await request, role).toMatchObject({ subject: { task } });
      continue;
    }
    await expect(request, role).rejects.toMatchObject({ code: "FORBIDDEN" });
    if (!isRoleOfPerson(role)) continue;
    const env = { ...elsewhere(), FLEET_NATS_CREDS: credentials };
    for (const proof of ["login", "passkey"]) {
      const { exit, out, err } = await cli(`sign ${task} --meaning review --with ${proof} --json`, env);
      expect({ exit, out }, err).toEqual({ exit: 77, out: "" });
      expect(err, id).toContain("lack the right sign. The roles with it: operator, reviewer;");
      // No address to log in at.
      expect(err, id).not.toContain("http");
    }
  }
});

test("an export is recorded, and one without the right leaves no file and is in the access log", {
  timeout: CALLS_MS,
}, async () => {
  const acts = (await fleet.tenantActs()).filter(({ action }) => action === "export");
  // A request whose answer was late is repeated, and recorded again.
  const begun = new Map(
    acts.map((act) => [(act as { subject: { manifest: string } }).subject.manifest, act]),
  );
  expect([...begun.values()]).toMatchObject(
    ["human=the-operator", "human=the-custodian"].map((id) => ({
      actor: { id, type: "human" },
      subject: { phase: "begin", tasks: 1 },
    })),
  );
  const auditor = await fleet.newCaller();
  for (const holder of holders) {
    const isExported = EXPECTED[holder.role].includes("export");
    expect(existsSync(exported(holder)), holder.role).toBe(isExported);
    if (isExported) continue;
    const refused = { op: "bus.publish", reason: "permission", credential: `nkey ${holder.id}` };
    await expect
      .poll(
        async () => (await auditor.admin.accessLog.list({ denied: true, limit: 500, ...CALL })).entries,
        POLL,
      )
      .toContainEqual(expect.objectContaining(refused));
  }
});
