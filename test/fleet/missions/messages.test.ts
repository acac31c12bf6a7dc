// Messages of a mission against a standalone fleet: delivery at least once through kills of recipients and of the fleet, by
// the SDK and at the command line (US-301, US-302, US-305).

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { FleetClient, MissionHandle } from "../../../shared/sdk/sdk.ts";
import { startFleet, type TestFleet } from "../../harness/processes/fleet.ts";
import { projectRoot } from "../../harness/project-root.ts";
import { callCli } from "../../services/cli/call.ts";

/** A busy machine takes seconds for each call. */
const CALLS = { timeout: 240_000 };
const PATIENT = { deadlineMs: 60_000 };
const POLL = { timeout: 60_000 };
const AGENTS = ["specialist-1", "specialist-2"] as const;

let server: TestFleet;
let dispatch: FleetClient;
const programs: ChildProcess[] = [];
beforeAll(async () => {
  server = await startFleet();
  dispatch = await server.client("dispatch");
});
afterAll(async () => {
  for (const child of programs) child.kill("SIGKILL");
  await server.stop();
});

async function startMission(id: string): Promise<MissionHandle> {
  const mission = dispatch.mission(id);
  await mission.start({ title: "Implement user authentication" }, PATIENT);
  const sorties = AGENTS.map((assignedTo, i) => ({ title: `part ${i + 1}`, assignedTo }));
  await mission.addSorties(sorties, PATIENT);
  return mission;
}

/** A process that receives messages. Resolves with its first message. */
async function receive(mission: string, agent: string, mode: "hang" | "process") {
  const program = "test/fleet/missions/recipient.program.ts";
  const child = spawn(process.execPath, [program, server.url, server.home, agent, mission, mode], {
    cwd: projectRoot,
    stdio: ["ignore", "pipe", "inherit"],
  });
  programs.push(child);
  const [line] = (await once(createInterface({ input: child.stdout }), "line")) as [string];
  return { child, message: JSON.parse(line) as { message_id: string; subject: string; body: string } };
}

async function kill(child: ChildProcess): Promise<void> {
  const ended = once(child, "exit");
  child.kill("SIGKILL");
  await ended;
}

const stateOf = (mission: MissionHandle, id: string) => async () => {
  const { messages } = await mission.messageList({ ...PATIENT, limit: 100 });
  return messages.find(({ message_id }) => message_id === id)?.state;
};

test(
  "a recipient that dies before it has processed a message gets it again; the other one got it once",
  CALLS,
  async () => {
    const mission = await startMission("msn-killed");
    const message = { to: AGENTS, subject: "Review auth changes", body: "before noon" };
    const { messageId } = await mission.send(message, PATIENT);
    const expected = { message_id: messageId, subject: "Review auth changes", body: "before noon" };
    const first = await receive(mission.id, "specialist-1", "hang");
    expect(first.message).toEqual(expected);
    await kill(first.child);
    const other = await receive(mission.id, "specialist-2", "process");
    expect(other.message).toEqual(expected);
    const missing = async () => {
      const { receipts } = (await mission.messageList(PATIENT)).messages[0]!;
      return receipts.map(({ agent_id }) => agent_id);
    };
    await expect.poll(missing, POLL).toEqual(["specialist-2"]);
    expect(await stateOf(mission, messageId)()).toBe("queued");
    const second = await receive(mission.id, "specialist-1", "process");
    expect(second.message).toEqual(expected);
    await expect.poll(stateOf(mission, messageId), POLL).toBe("delivered");
  },
);

test(
  "each message that was sent arrives through kills of the fleet and its bus, in order, and none twice in one loop",
  CALLS,
  async () => {
    const mission = await startMission("msn-restarts");
    const ended = new AbortController();
    const specialist = (await server.client("specialist-1")).missions.specialist(mission.id);
    const received: string[] = [];
    const receiving = (async () => {
      for await (const { subject } of specialist.messages({ signal: ended.signal })) received.push(subject);
    })();
    const subjects = Array.from({ length: 30 }, (_, n) => `part ${n}`);
    const sending = (async () => {
      for (const subject of subjects)
        await mission.send({ to: "specialist-1", subject }, { deadlineMs: 120_000 });
    })();
    await expect.poll(() => received.length, POLL).toBeGreaterThan(3);
    await server.kill9();
    await server.start();
    await expect.poll(() => received.length, { timeout: 120_000 }).toBeGreaterThan(10);
    await server.killNats();
    await sending;
    await expect.poll(() => received.length, { timeout: 120_000 }).toBe(subjects.length);
    expect(received).toEqual(subjects);
    const open = async () => (await mission.messageList({ ...PATIENT, state: "queued" })).messages.length;
    await expect.poll(open, POLL).toBe(0);
    ended.abort();
    await receiving;
  },
);

test("a loop that throws leaves its message, and the next loop gets it first", CALLS, async () => {
  const mission = await startMission("msn-thrown");
  await mission.send({ to: "specialist-2", subject: "first" }, PATIENT);
  await mission.send({ to: "specialist-2", subject: "second" }, PATIENT);
  const agent = (await server.client("specialist-2")).mission(mission.id);
  const failing = async () => {
    for await (const { subject } of agent.messages()) throw new Error(`no idea what ${subject} means`);
  };
  await expect(failing()).rejects.toThrow("no idea what first means");
  const seen: string[] = [];
  for await (const { subject } of agent.messages()) if (seen.push(subject) === 2) break;
  expect(seen).toEqual(["first", "second"]);
});

test(
  "US-302 a delivery failure writes an error checkpoint, and a resumption queues the message again, once",
  CALLS,
  async () => {
    const mission = await startMission("msn-failure");
    const { messageId } = await mission.send(
      { to: "specialist-1", subject: "Merge", timeoutMs: 1_000 },
      PATIENT,
    );
    const newest = async () => (await dispatch.latest(mission.id, PATIENT)).checkpoint;
    const details = async () => (await newest())?.metadata.trigger.details;
    const blocker = `Message ${messageId} of dispatch, "Merge", was not acknowledged in time by specialist-1`;
    await expect.poll(details, POLL).toBe(`MessageDeliveryFailure: ${blocker}`);
    expect((await newest())?.fleet).toMatchObject({
      pending_messages: [{ id: messageId, from: "dispatch", to: ["specialist-1"], delivered: false }],
      recovery_context: { blockers: [blocker] },
    });
    const agent = (await server.client("specialist-1")).mission(mission.id);
    expect((await agent.mailbox(PATIENT)).messages).toEqual([]);
    const resumed = await mission.resume(PATIENT);
    expect(resumed).toMatchObject({ restored: { messages: 1 }, requeuedMessages: [messageId] });
    expect(await mission.resume({ ...PATIENT, checkpointId: resumed.checkpointId })).toMatchObject({
      requeuedMessages: [],
    });
  },
);

test("a message without recipients is refused with the name of the field", CALLS, async () => {
  const mission = await startMission("msn-untyped");
  const untyped = { subject: "to no agent" } as Parameters<MissionHandle["send"]>[0];
  await expect(mission.send(untyped, PATIENT)).rejects.toMatchObject({
    code: "INVALID",
    fields: [expect.objectContaining({ path: "to" })],
  });
});

test("no client has the name under which the fleet writes", CALLS, async () => {
  await expect(server.client("fleet")).rejects.toMatchObject({
    code: "INVALID",
    fields: [expect.objectContaining({ path: "agentId", got: '"fleet"' })],
  });
});

describe("at the command line", CALLS, () => {
  const MISSION = "msn-cli";
  beforeAll(() => startMission(MISSION), CALLS.timeout);

  async function fleet(...argv: string[]) {
    const { url, home } = server;
    const env = { FLEET_URL: url, FLEET_HOME: home, FLEET_SPOOL_DIR: join(home, "spool"), COLUMNS: "160" };
    return await callCli(argv, { env });
  }
  const by = async (agent: string, ...argv: string[]) => {
    const { exit, out, err } = await fleet("--agent", agent, ...argv, "--mission", MISSION);
    if (exit !== 0) throw new Error(`fleet ${argv.join(" ")} ended with ${exit}: ${err}`);
    return out;
  };

  test("messages are sent, listed, read and acknowledged, and a checkpoint counts and shows them", async () => {
    const sent = await by(
      "dispatch",
      ...["message", "send", "Review auth changes", "--to", "specialist-2", "--body", "Before noon\nplease"],
    );
    expect(sent).toMatch(/^Message sent: msn-cli\/msg-0001\nTo: specialist-2\nUntil: \S+Z\n$/);
    expect(await by("specialist-2", "message", "read")).toMatch(
      /^Mailbox of specialist-2 in mission msn-cli\n\nmsn-cli\/msg-0001 {2}From: dispatch {2}.+\n {2}Subject: Review auth changes\n {2}Before noon\n {2}please\n\n1 message\n$/,
    );
    expect(await by("specialist-1", "mailbox")).toBe("Mailbox of specialist-1 in mission msn-cli\n\nNone.\n");
    expect(await by("dispatch", "checkpoint")).toMatch(/\nMessages: 1 pending\n$/);
    const shown = await by("dispatch", "checkpoints", "list", "--limit", "1", "--json");
    const [{ metadata }] = JSON.parse(shown) as [{ metadata: { checkpoint_id: string } }];
    expect((await fleet("checkpoints", "show", `chk-${metadata.checkpoint_id}`)).out).toMatch(
      /^Pending Messages \(1\):\n {2}From: dispatch +To: specialist-2 +Subject: "?Review auth changes"?$/m,
    );
    expect(await by("dispatch", "resume", "--dry-run")).toMatch(
      /\n- 1 message\n {2}From: dispatch {2}To: specialist-2 {2}Subject: "Review auth changes"\n/,
    );
    expect(await by("dispatch", "resume", "-y")).toMatch(/\n- Requeued 1 message\n/);
    expect(await by("dispatch", "resume", "-y")).toMatch(/\n- Requeued 0 messages \(1 queued before\)\n/);
    for (const id of ["msg-0001", "msn-cli/msg-0001"])
      expect(await by("specialist-2", "message", "ack", id)).toBe(
        "Acknowledged: msn-cli/msg-0001 (delivered)\n",
      );
    expect(await by("dispatch", "resume", "-y")).toMatch(
      /\n- Requeued 0 messages\n- Skipped 1 message \(msg-0001\): delivered since\n/,
    );
    expect(await by("dispatch", "messages")).toMatch(
      /^Messages of mission msn-cli\n\nMESSAGE +STATE +FROM +TO +SENT +UNTIL +SUBJECT\nmsg-0001 +delivered +dispatch +specialist-2 .* Review auth changes\n\n1 message\n$/,
    );
    expect(await by("specialist-1", "messages")).toBe("Messages of mission msn-cli\n\nNone.\n");
  });

  test("an id is acknowledged in the mission that it names, and never in another one", async () => {
    const other = await startMission("msn-newer");
    await other.send({ to: "specialist-1", subject: "of the newer mission" }, PATIENT);
    const send = ["message", "send", "Merge", "--to", "specialist-1", "-q"];
    const name = (await by("dispatch", ...send)).trim();
    expect(name).toMatch(/^msn-cli\/msg-\d{4}$/);
    const [, id = ""] = name.split("/");
    const ack = (...words: string[]) => fleet("--agent", "specialist-1", "message", "ack", ...words);
    expect(await ack(id)).toMatchObject({
      ...{ exit: 64, out: "", err: expect.stringContaining(`${id} does not say in which mission it is`) },
    });
    expect(await ack(name, "--mission", "msn-newer")).toMatchObject({ exit: 64, out: "" });
    expect(await ack("3")).toMatchObject({ exit: 64, out: "" });
    // Each is tried and reported.
    const several = await ack("msn-cli/msg-0099", name, "msn-nowhere/msg-0001");
    expect(several).toMatchObject({ exit: 4, out: `Acknowledged: ${name} (delivered)\n` });
    expect(several.err).toMatch(/the agent has no such message .*message_id=msg-0099/);
    expect(several.err).toContain("fleet message read --all --mission msn-cli`");
    expect(several.err).toMatch(/there is no such mission .*msn-nowhere.*\n.*fleet mission list`/);
    expect(await stateOf(other, "msg-0001")()).toBe("queued");
    expect((await fleet("mailbox", "--agent", "specialist-1", "--mission", "msn-newer")).out).toContain(
      "\nmsn-newer/msg-0001  From: dispatch",
    );
    await other.update({ status: "cancelled" }, PATIENT);
  });

  test("a message is cancelled, an unknown recipient is named, and a failed one is seen and acknowledged", async () => {
    const misspelled = ["message", "send", "Stop", "--to", "speciallist-1", "--expires", "10m", "-q"];
    const { out, err } = await fleet("--agent", "dispatch", ...misspelled, "--mission", MISSION);
    expect(err).toMatch(/^warning: a recipient has no part in the mission.*agent_id=speciallist-1/);
    expect((await fleet("--agent", "dispatch", "message", "cancel", out.trim())).out).toBe(
      `Cancelled: ${out}`,
    );
    expect(await by("dispatch", "messages", "--state", "cancelled")).toContain("Stop");
    const late = (
      await by("dispatch", "message", "send", "Late", "--to", "specialist-2", "--expires", "1", "-q")
    ).trim();
    const read = () => by("specialist-2", "message", "read");
    await expect
      .poll(read, POLL)
      .toMatch(/\n\nNone\.\n1 message failed before you acknowledged: see --all\.\n$/);
    expect(await by("dispatch", "checkpoint")).toMatch(/\nMessages: \d+ pending \(1 failed\)\n$/);
    expect(await by("specialist-2", "message", "read", "--all", "--ack")).toMatch(
      new RegExp(`\n${late} {2}From: dispatch .*, failed\n`),
    );
    expect(await read()).toMatch(/\n\nNone\.\n$/);
  });

  test("a subscriber reads the events of its mission, and acknowledges them", async () => {
    const events = ["--events", "fleet_checkpointed", "fleet_recovered"];
    expect(await by("dispatch", "message", "subscribe", ...events)).toBe(
      "Subscribed to: fleet_checkpointed, fleet_recovered\n",
    );
    await by("dispatch", "checkpoint", "-q");
    expect(await by("dispatch", "message", "read", "--ack")).toMatch(
      / From: fleet .*\n {2}Subject: fleet_checkpointed\n/,
    );
    expect(await by("dispatch", "mailbox")).toMatch(/\n\nNone\.\n$/);
    expect(await by("dispatch", "message", "subscribe", "--none")).toBe("Subscribed to no events.\n");
    expect((await fleet("message", "subscribe", "--mission", MISSION)).exit).toBe(64);
  });
});
