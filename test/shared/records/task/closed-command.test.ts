/** A refusal is answered only when no earlier attempt at the command can commit any more (guarantee 3). */
import { uuidv7 } from "uuidv7";
import { describe, expect, test, vi } from "vitest";
import { FleetError } from "../../../../shared/protocol/errors.ts";
import { openEncryption } from "../../../../shared/records/encryption/open-encryption.ts";
import { openFormat } from "../../../../shared/records/kv/format.ts";
import { tenantKeys } from "../../../../shared/records/kv/keyspace.ts";
import { CheckpointRepository } from "../../../../shared/records/repository.ts";
import { recall } from "../../../../shared/records/task/idempotency.ts";
import type { Store } from "../../../../shared/store/store.ts";
import { rootKey } from "../../../harness/encryption/root-key.ts";
import { acknowledge, initiate, offer } from "../../../harness/records/handoffs.ts";
import { create } from "../../../harness/records/records.ts";
import { LateDatabase } from "../../../harness/stores/late-database.ts";

const OFFER_MS = 60_000;
const DEADLINE_MS = 10_000;
const TASK = "task-1";
const AGENT = "qa-1";
const EXPIRED = { code: "CONFLICT", message: "the offer has expired" };

/** A task with an open offer. `opened`: a handle of another process. */
async function offered(opened: (store: Store) => Promise<Store>) {
  const database = new LateDatabase();
  /** What happens at the next readings of the clock, the first one first. */
  const readings: (() => void)[] = [];
  let nowMs = Date.now();
  const now = (): number => {
    readings.shift()?.();
    return nowMs;
  };
  const start = async (): Promise<CheckpointRepository> => {
    const store = await opened(database.open());
    return new CheckpointRepository({ store, format: await openFormat(store), finder: "test", now });
  };
  const repository = await start();
  await create(repository, { task: TASK });
  const { handoff_id } = await initiate(repository, { task: TASK });
  const handoff = await offer(repository, handoff_id, { deadlineMs: OFFER_MS });
  const commandId = uuidv7();
  return {
    ...{ database, repository, start, readings, commandId },
    accept: (by = repository) => acknowledge(by, handoff, { agent: AGENT, commandId }),
    expire: () => {
      nowMs += 2 * OFFER_MS;
    },
    renew: () => {
      nowMs -= 2 * OFFER_MS;
    },
    owner: async () => (await repository.task("default", TASK)).owner,
  };
}

const none = (): void => {};

async function refusalOf(promise: Promise<unknown>): Promise<FleetError> {
  const error = await promise.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  if (error instanceof FleetError) return error;
  throw new Error("the command was not refused", { cause: error });
}

describe.each([
  ["plain", async (store: Store) => store],
  ["encrypted", undefined],
] as const)("on a %s store", (_, open) => {
  const opened = (): ((store: Store) => Promise<Store>) => {
    if (open !== undefined) return open;
    const key = rootKey();
    return async (store) => (await openEncryption(store, [key])).store;
  };

  test("the commit of a first attempt does not arrive after the refusal of the second", async () => {
    const { database, readings, accept, expire, owner } = await offered(opened());
    readings.push(none, expire);
    database.delayNext("unknown");
    expect(await refusalOf(accept())).toMatchObject(EXPIRED);
    expect([database.arrive(), await owner()]).toEqual([[false], null]);
  });

  test("a commit that arrives after the second attempt has read is the answer", async () => {
    const { database, readings, commandId, accept, expire, owner } = await offered(opened());
    readings.push(none, expire, () => expect(database.arrive()).toEqual([true]));
    database.delayNext("unknown");
    expect(await accept()).toMatchObject({ command_id: commandId, owner: AGENT, replayed: true });
    expect(await owner()).toBe(AGENT);
  });

  describe("the commit of a killed process", () => {
    /** Its repetition is refused by another process. */
    async function repeated() {
      const task = await offered(opened());
      const { database, accept, expire, start } = task;
      database.delayNext("nothing");
      // The process that is killed gets no answer.
      void accept().catch(none);
      await expect.poll(() => database.inFlight).toBe(1);
      expire();
      const second = await start();
      const callers = vi.spyOn(second, "acknowledgeHandoff");
      const refusal = await refusalOf(accept(second));
      expect(refusal).toMatchObject(EXPIRED);
      const [caller] = callers.mock.calls[0]!;
      return { ...task, settle: () => second.applied.settle(caller, refusal, DEADLINE_MS) };
    }

    test("does not arrive after the refusal of its repetition", async () => {
      const { database, settle, owner } = await repeated();
      expect(await refusalOf(settle())).toMatchObject(EXPIRED);
      expect([database.arrive(), await owner()]).toEqual([[false], null]);
    });

    test("is the answer if it has arrived", async () => {
      const { database, settle, owner } = await repeated();
      expect(database.arrive()).toEqual([true]);
      expect(await settle()).toMatchObject({ owner: AGENT, replayed: true });
      expect(await owner()).toBe(AGENT);
    });
  });

  test("a copy that comes after the refusal is a new attempt, and has one effect", async () => {
    const { database, repository, readings, accept, expire, renew, owner, commandId } = await offered(
      opened(),
    );
    readings.push(none, expire);
    database.delayNext("unknown");
    await refusalOf(accept());
    const isApplied = () => repository.applied.isApplied("default", commandId, DEADLINE_MS);
    expect(await isApplied()).toBe(false);
    expect(await repository.applied.isAppliedSoon("default", commandId, 10, DEADLINE_MS)).toBe(false);
    renew();
    expect(await accept()).toMatchObject({ owner: AGENT, replayed: false });
    expect(await accept()).toMatchObject({ owner: AGENT, replayed: true });
    expect([await isApplied(), await owner()]).toEqual([true, AGENT]);
    expect(database.arrive()).toEqual([false]);
  });
});

test("a writer of an earlier version, which knows no such record, refuses the command too", async () => {
  const { database, readings, commandId, accept, expire } = await offered(async (store) => store);
  readings.push(none, expire);
  database.delayNext("unknown");
  await refusalOf(accept());
  const key = tenantKeys("default").command(commandId);
  const options = { label: "test", deadlineMs: DEADLINE_MS };
  const record = await database.open().read(options, (reader) => reader.get(key));
  const read = () => recall(record!, { tenant: "default", command: commandId }, "00");
  expect(read).toThrow(expect.objectContaining({ code: "CONFLICT" }));
});
