/** Random requests from the API's own OpenAPI document: none is a fault of the fleet, and none damages what is stored. */
import { setImmediate } from "node:timers/promises";
import fc from "fast-check";
import { uuidv7 } from "uuidv7";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startFleet, type TestFleet } from "../../harness/processes/fleet.ts";
import { ownRestClient, type RestClient } from "../../harness/rest-client.ts";

type Json = Record<string, unknown>;

interface Parameter {
  readonly name: string;
  readonly in: "path" | "query" | "header";
  readonly required: boolean;
  readonly schema: Json;
}

interface FuzzedOperation {
  readonly operationId: string;
  readonly method: string;
  readonly path: string;
  readonly parameters: readonly Parameter[];
  readonly body: Json | undefined;
  readonly statuses: readonly string[];
}

interface FuzzedRequest {
  readonly path: string;
  readonly headers: Record<string, string>;
  readonly body: string | undefined;
}

/** Of each operation. */
const RUNS = Number(process.env.FLEET_TEST_FUZZ_RUNS ?? 8);
const DEPTH_MAX = 4;
const TASKS = ["fuzz-1", "fuzz-2", "fuzz-3"];

let fleet: TestFleet;
let client: RestClient;
let document: { readonly paths: Record<string, Record<string, Json>>; readonly components: Json };
const ids: string[] = [];
/** The operations that have answered a random request with success. */
const succeeded = new Set<string>();
beforeAll(async () => {
  fleet = await startFleet({ FLEET_LOG_LEVEL: "warn" });
  client = ownRestClient(fleet);
  const answer = await fetch(`${fleet.gatewayUrl()}/api/openapi.json`);
  document = (await answer.json()) as typeof document;
  for (const task of TASKS) {
    const made = await client.post("/checkpoints", {
      task_id: task,
      agent_type: "implementation",
      execution_state: { phase: "implementing" },
    });
    ids.push(made.body.checkpoint_id as string);
  }
  expect(await client.post(`/missions/${TASKS[0]}/start`, { title: "Fuzz" })).toMatchObject({ status: 200 });
  const handoff = await client.post(`/tasks/${TASKS[1]}/handoff`, { to_agent_type: "qa", reason: "fuzz" });
  ids.push(handoff.body.handoff_id as string);
  const sorties = [{ title: "One" }, { title: "Two" }];
  expect(await client.post(`/missions/${TASKS[0]}/sorties`, { sorties })).toMatchObject({ status: 200 });
});
afterAll(() => fleet.stop());

function operations(): FuzzedOperation[] {
  return Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, { operationId, parameters = [], requestBody, responses }]) => ({
      operationId: operationId as string,
      method: method.toUpperCase(),
      path,
      parameters: parameters as Parameter[],
      body: Object.values(((requestBody as Json | undefined)?.content ?? {}) as Record<string, Json>)[0]
        ?.schema as Json | undefined,
      statuses: Object.keys(responses as Json),
    })),
  );
}

/** Values of a schema, and now and then any other value. */
function valuesOf(schema: Json, name: string, depth = 0): fc.Arbitrary<unknown> {
  const meant = meantValues(schema, name, depth);
  return fc.oneof({ weight: 40, arbitrary: meant }, { weight: 1, arbitrary: fc.jsonValue({ maxDepth: 2 }) });
}

function meantValues(given: Json, name: string, depth: number): fc.Arbitrary<unknown> {
  const schema = resolved(given);
  if (/(checkpoint|parent|child|handoff)_id$/.test(name)) return fc.constantFrom(...ids, uuidv7());
  if (name === "task_id" || name === "mission_id") return fc.constantFrom(...TASKS, "fuzz-4");
  if (name === "sortie_id") return fc.constantFrom("srt-001", "srt-002", "srt-009");
  if (name === "fence" || name === "expected_fence") return fc.constantFrom(0, 1, 1, 2);
  if (Array.isArray(schema.enum)) return fc.constantFrom(...schema.enum);
  if (schema.const !== undefined) return fc.constant(schema.const);
  const options = (schema.anyOf ?? schema.oneOf) as Json[] | undefined;
  if (options !== undefined) return fc.oneof(...options.map((option) => meantValues(option, name, depth)));
  switch (schema.type) {
    case "integer": {
      const min = Number(schema.minimum ?? 0);
      const max = Math.min(min + 20, Number(schema.maximum ?? Number.MAX_SAFE_INTEGER));
      return mostly(fc.integer({ min, max }), fc.maxSafeInteger());
    }
    case "number":
      return fc.double({ noNaN: true });
    case "boolean":
      return fc.boolean();
    case "string":
      return mostly(textsOf(schema), fc.string({ unit: "binary", maxLength: 30 }));
    case "array":
      return depth >= DEPTH_MAX
        ? fc.constant([])
        : fc.array(valuesOf((schema.items ?? {}) as Json, name, depth + 1), { maxLength: 3 });
    case "object":
      return depth >= DEPTH_MAX ? fc.constant({}) : objectsOf(schema, depth);
    default:
      return fc.jsonValue({ maxDepth: 2 });
  }
}

const mostly = (meant: fc.Arbitrary<unknown>, other: fc.Arbitrary<unknown>): fc.Arbitrary<unknown> =>
  fc.oneof({ weight: 20, arbitrary: meant }, { weight: 1, arbitrary: other });

function textsOf({ pattern, format }: Json): fc.Arbitrary<string> {
  if (format === "date-time") return fc.date({ noInvalidDate: true }).map((date) => date.toISOString());
  return fc.stringMatching(typeof pattern === "string" ? new RegExp(pattern) : /^[a-z0-9-]{1,20}$/);
}

function objectsOf({ properties = {}, required = [] }: Json, depth: number): fc.Arbitrary<Json> {
  const members = Object.entries(properties as Record<string, Json>).map(([name, schema]) => {
    const values = valuesOf(schema, name, depth + 1);
    const always = (required as string[]).includes(name);
    // A missing required member is a request as well.
    return [name, fc.option(values, { nil: undefined, freq: always ? 60 : 2 })] as const;
  });
  return fc.record(Object.fromEntries(members)) as fc.Arbitrary<Json>;
}

function resolved(schema: Json): Json {
  if (typeof schema.$ref !== "string") return schema;
  const steps = schema.$ref.slice(2).split("/");
  return steps.reduce((at: Json, step) => at[step] as Json, document as unknown as Json);
}

const anyHeader = fc.string({
  unit: fc.integer({ min: 0x20, max: 0x7e }).map((code) => String.fromCharCode(code)),
});

/** Headers that any operation may get, whether the document names them or not. */
const HEADERS: Readonly<Record<string, fc.Arbitrary<string>>> = {
  accept: fc.constantFrom("text/event-stream", "text/html", "*/*;q=0.1", ""),
  "content-type": fc.constantFrom(
    "application/merge-patch+json",
    "text/plain",
    "application/json; charset=x",
  ),
  "content-encoding": fc.constantFrom("gzip", "identity"),
  "idempotency-key": fc.oneof(fc.constantFrom(uuidv7(), '"quoted"', "key-1"), anyHeader),
  "if-match": fc.oneof(fc.constantFrom("*", '"1-0123456789abcdef"', 'W/"1"'), anyHeader),
  "if-none-match": fc.oneof(fc.constantFrom("*", '"a", "b"'), anyHeader),
  "last-event-id": fc.oneof(fc.constantFrom("0", "-1", "9".repeat(30)), anyHeader),
  traceparent: fc.oneof(
    fc.constantFrom("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "00--"),
    anyHeader,
  ),
  "x-forwarded-for": anyHeader,
};
const anyHeaders = fc.record(HEADERS, { requiredKeys: [] });
/** Names that no operation has, a second value of the same name, and texts that are no UTF-8. */
const anyQuery = fc.oneof(
  { weight: 20, arbitrary: fc.constant("") },
  { weight: 1, arbitrary: fc.constantFrom("limit=1&limit=2", "x=1", "%ff=%ff", "cursor=AAAA", "=&&") },
);
/** Positions, of which a random one is always wrong. */
const PLACES = ["cursor", "wait_for", "after"];

function requestsOf({ path, parameters, body }: FuzzedOperation): fc.Arbitrary<FuzzedRequest> {
  const given = fc.tuple(
    ...parameters.map(({ name, required, schema }) =>
      required
        ? valuesOf(schema, name)
        : fc.oneof(
            { weight: PLACES.includes(name) ? 20 : 2, arbitrary: fc.constant(undefined) },
            { weight: 1, arbitrary: valuesOf(schema, name) },
          ),
    ),
  );
  const bodies =
    body === undefined
      ? fc.constant(undefined)
      : fc.oneof(
          { weight: 40, arbitrary: meantValues(body, "", 0).map((value) => JSON.stringify(value)) },
          { weight: 1, arbitrary: fc.string({ unit: "binary" }).map((text) => text.toWellFormed()) },
        );
  const others = fc.oneof({ weight: 5, arbitrary: fc.constant({}) }, { weight: 1, arbitrary: anyHeaders });
  return fc.tuple(given, bodies, others, anyQuery).map(([values, content, more, search]) => {
    let target = path;
    const query = new URLSearchParams();
    const headers: Record<string, string> = { "content-type": "application/json", ...more };
    parameters.forEach((parameter, i) => {
      const value = values[i];
      const text = typeof value === "string" ? value : JSON.stringify(value);
      if (parameter.in === "path") target = target.replace(`{${parameter.name}}`, segment(text));
      else if (text !== undefined && parameter.in === "query") query.append(parameter.name, text);
      else if (text !== undefined && /^[\x20-\x7e]*$/.test(text)) headers[parameter.name] = text;
    });
    const all = [query.toString(), search].filter(Boolean).join("&");
    return { path: all === "" ? target : `${target}?${all}`, headers, body: content };
  });
}

const segment = (text = "x"): string => encodeURIComponent(text.toWellFormed()) || "x";

async function answerTo(
  { operationId, method, statuses }: FuzzedOperation,
  { path, headers, body }: FuzzedRequest,
): Promise<void> {
  // A value takes seconds to make on a busy machine. The gateway may close the idle connection meanwhile, which is seen in the next turn.
  await setImmediate();
  const answer = await fetch(fleet.gatewayUrl() + path, {
    method,
    headers: { ...headers, authorization: `Bearer ${client.key}` },
    ...(body !== undefined && { body }),
  });
  // A stream of events has no end.
  if (answer.headers.get("content-type") === "text/event-stream") return answer.body?.cancel();
  const text = await answer.text();
  if (answer.status === 503) expect(answer.headers.get("retry-after")).not.toBeNull();
  // A loaded machine may miss the deadline of an answer.
  else if (answer.status !== 504) expect(answer.status, text).toBeLessThan(500);
  expect(statuses, text).toContain(String(answer.status));
  if (answer.ok) succeeded.add(operationId);
  if (answer.status >= 400) expect(JSON.parse(text)).toMatchObject({ status: answer.status });
}

test("no request of the document's forms is a fault, and the scrub finds no damage afterwards", async () => {
  for (const operation of operations())
    await fc.assert(
      fc.asyncProperty(requestsOf(operation), (request) => answerTo(operation, request)),
      { numRuns: RUNS, endOnFailure: true },
    );
  // Requests that are all refused would prove little.
  expect(succeeded.size).toBeGreaterThan(20);
  const { requested_pass: pass } = (await client.post("/scrub")).body as { requested_pass: number };
  const last = async () => ((await client.get("/scrub")).body.last as { pass: number } | null)?.pass ?? 0;
  await expect.poll(last, { timeout: 60_000 }).toBeGreaterThanOrEqual(pass);
  expect((await client.get("/scrub/findings")).body.findings).toEqual([]);
}, 240_000);
