/** Events over HTTP: a stream that a client resumes where it was cut off, and pages of the same events. */
import { uuidv7 } from "uuidv7";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { startFleet, type TestFleet } from "../../harness/processes/fleet.ts";
import { newRestClient, ownRestClient, type RestClient } from "../../harness/rest-client.ts";

interface StreamedEvent {
  readonly id: string;
  readonly type: string;
  readonly data: { readonly subject: string; readonly sequence: number; readonly id: string };
}

let fleet: TestFleet;
let operator: RestClient;
beforeAll(async () => {
  fleet = await startFleet({ FLEET_LOG_LEVEL: "info" });
  operator = ownRestClient(fleet);
});
afterAll(() => fleet.stop());

class EventReader {
  readonly events: StreamedEvent[] = [];
  readonly #leave = new AbortController();
  /** Resolves when the server has ended the stream. */
  ended: Promise<void> = Promise.resolve();

  async open(client: RestClient, query = "", lastEventId?: string): Promise<Response> {
    const answer = await fetch(`${fleet.gatewayUrl()}/api/v1/events${query}`, {
      headers: {
        authorization: `Bearer ${client.key}`,
        accept: "text/event-stream",
        ...(lastEventId !== undefined && { "last-event-id": lastEventId }),
      },
      signal: this.#leave.signal,
    });
    this.ended = this.#read(answer).catch(() => {});
    onTestFinished(() => this.leave());
    return answer;
  }

  leave(): void {
    this.#leave.abort();
  }

  async #read(answer: Response): Promise<void> {
    let text = "";
    const decoder = new TextDecoder();
    for await (const bytes of answer.body!) {
      text += decoder.decode(bytes as Uint8Array, { stream: true });
      const blocks = text.split("\n\n");
      text = blocks.pop() ?? "";
      for (const block of blocks) {
        const fields = new Map(
          block.split("\n").map((line) => line.split(/: (.*)/s).slice(0, 2) as [string, string]),
        );
        const data = fields.get("data");
        if (data === undefined) continue;
        this.events.push({
          id: fields.get("id") ?? "",
          type: fields.get("event") ?? "",
          data: JSON.parse(data),
        });
      }
    }
  }
}

async function write(task: string, by = operator): Promise<void> {
  const headers = { "idempotency-key": uuidv7() };
  const body = { task_id: task, agent_type: "qa", execution_state: { phase: "testing" } };
  await expect.poll(async () => (await by.post("/checkpoints", body, headers)).status).toBe(201);
}

const sequences = ({ events }: EventReader) => events.map(({ data }) => data.sequence);

test("a client that comes back with its last id gets every event once, in order", async () => {
  const first = new EventReader();
  const answer = await first.open(operator, "?task_id=stream-1");
  expect(answer.headers.get("content-type")).toBe("text/event-stream");
  for (let i = 0; i < 3; i += 1) await write("stream-1");
  await expect.poll(() => sequences(first)).toEqual([1, 2, 3]);
  expect(first.events[0]).toMatchObject({ type: "CHECKPOINT_CREATED", data: { subject: "stream-1" } });
  first.leave();
  for (let i = 0; i < 3; i += 1) await write("stream-1");
  const second = new EventReader();
  await second.open(operator, "?task_id=stream-1", first.events[1]?.id);
  await expect.poll(() => sequences(second)).toEqual([3, 4, 5, 6]);
  await write("stream-1");
  await expect.poll(() => sequences(second)).toEqual([3, 4, 5, 6, 7]);
});

test("pages have the same events, from the oldest on, of one type, and from a cursor on", async () => {
  for (let i = 0; i < 3; i += 1) await write("page-1");
  const path = "/events?task_id=page-1&from=oldest";
  await expect.poll(async () => ((await operator.get(path)).body.events as unknown[]).length).toBe(3);
  const { events } = (await operator.get(`${path}&limit=2`)).body as { events: { cursor: string }[] };
  expect(events).toHaveLength(2);
  const rest = await operator.get(`/events?task_id=page-1&after=${events[1]?.cursor}`);
  expect(rest.body.events).toHaveLength(1);
  expect((await operator.get(`${path}&type=TASK_TAKEN`)).body.events).toEqual([]);
  expect((await operator.get("/events")).body.events).toEqual([]);
  expect(await operator.get("/events?after=nonsense")).toMatchObject({ status: 400 });
});

test("a tenant gets no event of another one, and a runner gets none", async () => {
  const other = await newRestClient(fleet, { name: "spy", tenant: "other", role: "operator" });
  await write("secret-1");
  await expect
    .poll(
      async () =>
        ((await operator.get("/events?task_id=secret-1&from=oldest")).body.events as unknown[]).length,
    )
    .toBe(1);
  expect((await other.get("/events?from=oldest")).body.events).toEqual([]);
  const runner = await newRestClient(fleet, { name: "host-1", role: "runner" });
  expect((await runner.get("/events")).status).toBe(403);
  expect((await new EventReader().open(runner)).status).toBe(403);
});

test("a key has a limited number of streams, takes none of another key of its name, and one that it leaves makes room", async () => {
  const caller = await newRestClient(fleet, { name: "greedy", role: "observer" });
  const readers = Array.from({ length: 32 }, () => new EventReader());
  for (const reader of readers) expect((await reader.open(caller)).status).toBe(200);
  const refused = await new EventReader().open(caller);
  expect(refused.status).toBe(429);
  expect(Number(refused.headers.get("retry-after"))).toBeGreaterThan(0);
  expect((await caller.get("/events")).status).toBe(200);
  expect((await new EventReader().open(operator)).status).toBe(200);
  const sameName = await newRestClient(fleet, { name: "greedy", role: "observer" });
  expect((await new EventReader().open(sameName)).status).toBe(200);
  readers[0]?.leave();
  await expect.poll(async () => (await new EventReader().open(caller)).status).toBe(200);
});

test("a request for the head of a stream opens none", async () => {
  const caller = await newRestClient(fleet, { name: "head-only", role: "observer" });
  const headers = { accept: "text/event-stream" };
  for (let i = 0; i < 40; i += 1) {
    const answer = await caller.send("HEAD", "/events", { headers });
    expect(answer.status).toBe(200);
    expect(answer.headers.get("content-type")).toBe("text/event-stream");
  }
  expect((await new EventReader().open(caller)).status).toBe(200);
});

test("the stop of the fleet ends a stream; the client resumes at the next start", async () => {
  const reader = new EventReader();
  await reader.open(operator, "?task_id=stop-1");
  await write("stop-1");
  await expect.poll(() => reader.events.length).toBe(1);
  expect(await fleet.terminate()).toBe(0);
  await reader.ended;
  await fleet.start();
  const next = new EventReader();
  await expect
    .poll(async () => (await next.open(operator, "?task_id=stop-1", reader.events[0]?.id)).status)
    .toBe(200);
  await write("stop-1");
  await expect.poll(() => sequences(next)).toEqual([2]);
});
