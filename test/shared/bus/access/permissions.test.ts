// Each cell of the permission table against a real server: what a role may do works, and everything else is refused.

import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Grant, serverClaims } from "../../../../shared/bus/access/claims.ts";
import { rightsOf } from "../../../../shared/protocol/permissions.ts";
import {
  CLIENT_ROLES,
  type ClientRole,
  isServiceRole,
  ROLES,
  type Role,
  SERVICE_ROLES,
} from "../../../../shared/protocol/roles.ts";
import { type GuardedNats, serviceGrant, startGuardedNats } from "../../../harness/guarded-nats.ts";
import { nameOf, type Probe, probesOf, refusedOf } from "../../../harness/permission-probes.ts";

let nats: GuardedNats;
beforeAll(async () => {
  nats = await startGuardedNats();
});
afterAll(() => nats?.stop());

// Capitals: the server must not compare names without them.
const TENANT = "AcMe";
const NAME = "Ada-1";
const grantOf = (role: Role): Grant =>
  isServiceRole(role) ? serviceGrant(role) : { role, tenant: TENANT, name: NAME };

const PROBES = probesOf(TENANT, NAME);

/** The meaning of wildcards in the rights of the server, written independently of it. */
function covers(pattern: string, subject: string): boolean {
  const [tokens, parts] = [pattern.split("."), subject.split(".")];
  for (const [place, token] of tokens.entries()) {
    if (token === ">") return parts.length > place;
    const part = parts[place];
    if (part === undefined || part === ">" || (token !== "*" && token !== part)) return false;
  }
  return tokens.length === parts.length;
}

describe.each(ROLES)("%s", (role) => {
  test("may do exactly what the table allows", async () => {
    const rights = rightsOf(role, grantOf(role));
    const expected = PROBES.filter(
      ({ direction, subject }) => !rights[direction].some((pattern) => covers(pattern, subject)),
    );
    const refused = await refusedOf(await nats.connectAs(grantOf(role)), PROBES);
    expect([...refused].toSorted()).toEqual([...new Set(expected.map(nameOf))].toSorted());
    // A connection that refuses everything, or nothing, would prove little.
    expect(refused.size).toBeLessThan(PROBES.length - 3);
    expect(refused.size).toBeGreaterThan(PROBES.length / 4);
  });
});

const refusedTo = async (role: Role, probes: readonly Probe[]) =>
  [...(await refusedOf(await nats.connectAs(grantOf(role)), probes))].toSorted();

test.each(CLIENT_ROLES)(
  "%s: acts under no other name, and reads and writes no inbox of others",
  async (role) => {
    const others = ["other", "human=ada"].flatMap((name): Probe[] => [
      { direction: "publish", subject: `fleet.cmd.${TENANT}.${name}.t.acknowledge` },
      { direction: "publish", subject: `fleet.cmd.${TENANT}.${name}.t.acknowledge.worker` },
      { direction: "publish", subject: `fleet.query.${TENANT}.${name}.task` },
      { direction: "publish", subject: `fleet.query.${TENANT}.${name}.latest` },
      { direction: "publish", subject: `_INBOX.${TENANT}.${name}.x.1` },
      { direction: "subscribe", subject: `_INBOX.${TENANT}.${name}.>` },
      { direction: "subscribe", subject: `_INBOX.${TENANT}.${name}.x.1` },
    ]);
    // A wildcard of the server must not widen a right: neither in the place of a name nor in that of a tenant.
    const wider = [
      ...["*", ">"].map((rest) => `_INBOX.${TENANT}.${rest}`),
      ...[`_INBOX.*.${NAME}.>`, "_INBOX.*.*.x.1", `_INBOX.${TENANT}.*.x.>`, `_INBOX.${TENANT}.*.clients.>`],
      ...["fleet.query.>", `fleet.cmd.${TENANT}.${NAME}.>`, `fleet.access.${TENANT}.*.*`],
    ].map((subject): Probe => ({ direction: "subscribe", subject }));
    const services = SERVICE_ROLES.flatMap((service): Probe[] => [
      { direction: "publish", subject: `_INBOX.=${service}.test.1` },
      { direction: "subscribe", subject: `_INBOX.=${service}.>` },
    ]);
    const all = [...others, ...wider, ...services];
    expect(await refusedTo(role, all)).toEqual(all.map(nameOf).toSorted());
  },
);

test("the claims give no role a right to answer", async () => {
  const { account } = await serverClaims(nats.keys, {});
  const claims = JSON.parse(Buffer.from(account.jwt.split(".")[1]!, "base64url").toString());
  const templates = claims.nats.signing_keys as { role: string; template: object }[];
  expect(templates.map(({ role }) => role).toSorted()).toEqual([...ROLES].toSorted());
  for (const { template } of templates) expect(template).not.toHaveProperty("resp");
});

/** A request with `reply`, after which its receiver publishes to `subjects`. Resolves with those that a writer or the sender has received. */
async function afterRequest(
  sender: Grant,
  receiver: Grant,
  { op, reply, subjects = [reply] }: { op: string; reply: string; subjects?: readonly string[] },
) {
  const [writer, from, to] = await Promise.all(
    [serviceGrant("writer"), sender, receiver].map((grant) => nats.connectAs(grant)),
  );
  const received: string[] = [];
  const callback = (_: Error | null, { subject }: { subject: string }) => void received.push(subject);
  writer!.subscribe("fleet.cmd.*.*.*.*", { callback });
  from!.subscribe(`_INBOX.${TENANT}.${sender.name}.>`, { callback });
  const requests = `fleet.agent.${TENANT}.*.${receiver.role === "runner" ? sender.name : receiver.name}.${op}`;
  const asked = new Promise<string>((resolve) => {
    to!.subscribe(requests, { callback: (_, message) => resolve(message.reply ?? "none") });
  });
  await Promise.all([writer, from, to].map((connection) => connection!.flush()));
  from!.publish(requests.replace("*", sender.name), "{}", { reply });
  expect(await asked).toBe(reply);
  for (const subject of subjects) to!.publish(subject, "{}");
  await to!.flush();
  await Promise.all([writer!.flush(), from!.flush()]);
  await Promise.all([writer, from, to].map((connection) => connection!.close()));
  return received;
}

const as = (role: ClientRole, name: string): Grant => ({ role, tenant: TENANT, name });

test("a runner answers below the inboxes for clients, and not where services answer", async () => {
  const asked = (reply: string, ...subjects: string[]) =>
    afterRequest(as("agent", "worker"), as("runner", "runner-box"), { op: "inject", reply, subjects });
  const inbox = `_INBOX.${TENANT}.worker`;
  const [answer, forged] = [`${inbox}.clients.x.1`, `${inbox}.x.1`];
  expect(await asked(answer, forged, answer)).toEqual([answer]);
  expect(await asked(forged, forged, answer)).toEqual([answer]);
});

test.each([`fleet.cmd.${TENANT}.human=ada.t.finalize`, "fleet.cmd.other.human=ada.t.take"])(
  "a request gives its receiver no right on the subject of its answer: %s",
  async (reply) => {
    // It asks itself.
    const conductor = as("orchestrator", "conductor");
    expect(await afterRequest(conductor, conductor, { op: "checkpoint", reply })).toEqual([]);
    // A runner can get credentials of agents.
    const asked = { op: "inject", reply };
    expect(await afterRequest(as("agent", "worker"), as("runner", "runner-box"), asked)).toEqual([]);
  },
);

test("no client has rights on JetStream, and no service may command", () => {
  for (const role of CLIENT_ROLES) {
    const { publish, subscribe } = rightsOf(role, grantOf(role));
    expect([...publish, ...subscribe].filter((subject) => subject.startsWith("$"))).toEqual([]);
  }
  for (const role of SERVICE_ROLES) {
    const { publish, subscribe } = rightsOf(role, grantOf(role));
    expect(publish.filter((subject) => covers(subject, "fleet.cmd.t.a.task.create"))).toEqual([]);
    expect([...publish, ...subscribe]).not.toContain(">");
  }
});
