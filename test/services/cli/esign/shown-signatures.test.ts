/** The signatures beside lists of checkpoints, from a fleet that cannot read them all. */
import { Command } from "commander";
import { afterEach, expect, test, vi } from "vitest";
import { addHistory } from "../../../../services/cli/commands/checkpoints/history.ts";
import { addList } from "../../../../services/cli/commands/checkpoints/list.ts";
import { addSearch } from "../../../../services/cli/commands/checkpoints/search.ts";
import { signaturesOf, signaturesOfNamed } from "../../../../services/cli/commands/esign/shown-signatures.ts";
import { restoreMission } from "../../../../services/cli/commands/missions/mission-resume.ts";
import type { Session } from "../../../../services/cli/runtime/session.ts";
import { FleetError } from "../../../../shared/protocol/errors.ts";
import { EsignAdmin } from "../../../../shared/sdk/esign/esign-admin.ts";
import type { Checkpoint } from "../../../../shared/sdk/sdk.ts";

afterEach(() => vi.restoreAllMocks());

type EsignParts = ConstructorParameters<typeof EsignAdmin>[0];

const ofTask = (_: unknown, n: number) =>
  ({
    metadata: { task_id: `task-${n}`, checkpoint_id: `chk-${n}`, version: 1 },
    compliance: { hash: "" },
  }) as Checkpoint;

/** The signatures of two named checkpoints, each in two pages, while each read takes 100 ms of the time. */
async function namedOf(names: readonly (string | null)[]) {
  const asked: { checkpointId: string; fromSeq: number; deadlineMs: number }[] = [];
  let now = 0;
  vi.spyOn(performance, "now").mockImplementation(() => now);
  const send = async (_: string, query: (typeof asked)[number]) => {
    now += 100;
    asked.push(query);
    const { checkpointId: checkpoint_id, fromSeq: audit_seq } = query;
    const signatures = [{ checkpoint_id, version: 1, audit_seq, signed: null, entry: null }];
    return { signatures, ...(audit_seq === 1 && { next_seq: 2 }) };
  };
  const esign = new EsignAdmin({ queries: { send }, tenant: "default" } as unknown as EsignParts);
  const session = { client: async () => ({ admin: { esign } }), deadline: { deadlineMs: 1_000 } };
  const found = await signaturesOfNamed(session as unknown as Session, "auth", names);
  return { asked, found: found.map(({ checkpoint_id, audit_seq }) => [checkpoint_id, audit_seq]) };
}

/** The data of a command as JSON, of a fleet whose reader answers `page` and whose signatures cannot be read, or are none. */
async function pageOf(page: object, show: (session: Session) => Promise<void>, isAway: boolean) {
  const send = async () => {
    if (isAway) throw new FleetError("TIMEOUT", "no answer");
    return { signatures: [] };
  };
  const esign = new EsignAdmin({ queries: { send }, tenant: "default" } as unknown as EsignParts);
  const shown: object[] = [];
  const reads = { getCheckpointHistory: async () => page, searchCheckpoints: async () => page };
  const mission = { state: async () => ({ mission_id: "msn" }), previewResume: async () => page };
  const client = { ...reads, admin: { esign }, getTask: async () => null, mission: () => mission };
  await show({
    context: { now: () => 0 },
    ...{ client: async () => client, deadline: {}, warn() {}, programName: "fleet" },
    show: async (data: object) => void shown.push(data),
  } as unknown as Session);
  return shown;
}

/** A session whose fleet refuses the signatures of the tasks in `failing`. */
async function shownOf(count: number, failing: (task: string) => boolean) {
  const [asked, deadlines, warnings] = [[] as string[], [] as number[], [] as unknown[]];
  const send = async (_: string, { taskId, deadlineMs }: { taskId: string; deadlineMs: number }) => {
    asked.push(taskId);
    deadlines.push(deadlineMs);
    if (failing(taskId)) throw new FleetError("TIMEOUT", "no answer");
    const place = { checkpoint_id: taskId.replace("task", "chk"), version: 1, audit_seq: 1 };
    return { signatures: [{ ...place, signed: null, entry: null }] };
  };
  const esign = new EsignAdmin({ queries: { send }, tenant: "default" } as unknown as EsignParts);
  const session = {
    client: async () => ({ admin: { esign } }),
    deadline: { deadlineMs: 20_000 },
    warn: (warning: unknown) => warnings.push(warning),
  } as unknown as Session;
  const found = await signaturesOf(session, Array.from({ length: count }, ofTask));
  return { found: found.map(({ checkpoint_id }) => checkpoint_id), asked, deadlines, warnings };
}

test("all are read, and each read has at most the time that is left", async () => {
  const { found, deadlines, warnings } = await shownOf(20, () => false);
  expect(found).toHaveLength(20);
  expect(warnings).toEqual([]);
  expect(Math.max(...deadlines)).toBeLessThanOrEqual(20_000);
  expect(deadlines).toEqual(deadlines.toSorted((a, b) => b - a));
});

test("those of named checkpoints are read alone, and all pages together in the time of one call", async () => {
  const { asked, found } = await namedOf(["chk-1", null, "chk-2", "chk-1"]);
  expect(found).toEqual([
    ["chk-1", 1],
    ["chk-2", 1],
    ["chk-1", 2],
    ["chk-2", 2],
  ]);
  expect(asked.map(({ deadlineMs }) => deadlineMs)).toEqual([1_000, 900, 800, 700]);
});

test("those of many named checkpoints are read with all of their task, without those of others", async () => {
  const asked: object[] = [];
  const send = async (_: string, query: { fromSeq: number }) => {
    const { fromSeq } = query;
    asked.push(query);
    const ids = fromSeq === 1 ? ["chk-0", "other"] : ["chk-4", "chk-0"];
    const signatures = ids.map((checkpoint_id, n) => ({
      ...{ checkpoint_id, version: 1, audit_seq: fromSeq + n, signed: null, entry: null },
    }));
    return { signatures, ...(fromSeq === 1 && { next_seq: 3 }) };
  };
  const esign = new EsignAdmin({ queries: { send }, tenant: "default" } as unknown as EsignParts);
  const session = { client: async () => ({ admin: { esign } }), deadline: { deadlineMs: 1_000 } };
  const names = Array.from({ length: 500 }, (_v, n) => `chk-${n}`);
  const found = await signaturesOfNamed(session as unknown as Session, "auth", names);
  expect(found.map(({ checkpoint_id, audit_seq }) => [checkpoint_id, audit_seq])).toEqual([
    ["chk-0", 1],
    ["chk-4", 3],
    ["chk-0", 4],
  ]);
  expect(asked).toMatchObject([{ fromSeq: 1 }, { fromSeq: 3 }]);
  for (const query of asked) expect(query).not.toHaveProperty("checkpointId");
});

test("a failure ends the reads, with one warning for all tasks without signatures", async () => {
  const { found, asked, warnings } = await shownOf(50, (task) => task !== "task-3");
  expect(asked).toHaveLength(8);
  expect(found).toEqual(["chk-3"]);
  expect(warnings).toEqual([
    {
      code: "SIGNATURES_UNREAD",
      text: "the electronic signatures could not be read",
      details: { tasks: 49, problem: "TIMEOUT" },
    },
  ]);
});

test.each([
  { name: "history", add: addHistory, args: ["history", "auth"] },
  { name: "list", add: addList, args: ["list", "--task", "auth"] },
  { name: "list of an agent", add: addList, args: ["list", "--agent", "agent-1"] },
  { name: "search", add: addSearch, args: ["search", "--task", "auth"] },
])("$name prints no signature that the program itself has not verified", async ({ add, args }) => {
  const block = { state: "valid", printed_name: "Ada Lovelace", checkpoint_id: "chk-0", version: 1 };
  const record = ofTask(null, 0);
  const page = {
    checkpoints: [{ ...record, electronic_signatures: [block], other_versions_signatures: [block] }],
    corrupt: [],
    electronic_signatures: [block],
    electronic_signatures_left_out: 2,
    electronic_signatures_unread: "TIMEOUT",
  };
  for (const isAway of [false, true]) {
    const shown = await pageOf(
      page,
      async (session) => {
        const group = new Command();
        add(
          group,
          ((run: (session: Session, ...given: never[]) => Promise<void>) =>
            (...given: never[]) =>
              run(session, ...given)) as never,
        );
        await group.parseAsync(args, { from: "user" });
      },
      isAway,
    );
    expect(shown).toEqual([{ checkpoints: [record], corrupt: [] }]);
  }
});

test("a preview of a resumption prints no signature that the program itself has not verified", async () => {
  const block = { state: "valid", printed_name: "Ada Lovelace", checkpoint_id: "chk-0", version: 1 };
  const preview = { mission_id: "msn", checkpoint_id: "chk-0" };
  const page = { ...preview, electronic_signatures: [block], electronic_signatures_left_out: 2 };
  const dryRun = (session: Session) => restoreMission(session, { mission: "msn", dryRun: true } as never);
  for (const isAway of [false, true]) expect(await pageOf(page, dryRun, isAway)).toEqual([preview]);
});
