/** Random requests from the API's own OpenAPI document: none is a fault of the fleet, and none damages what is stored. */
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
  readonly method: string;
  readonly path: string;
  readonly parameters: readonly Parameter[];
  readonly body: Json | undefined;
}

interface FuzzedRequest {
  readonly method: string;
  readonly path: string;
  readonly headers: Record<string, string>;
  readonly body: string | undefined;
}

const RUNS = Number(process.env.FLEET_TEST_FUZZ_RUNS ?? 400);
const DEPTH_MAX = 4;
const TASKS = ["fuzz-1", "fuzz-2", "fuzz-3"];

let fleet: TestFleet;
let client: RestClient;
let document: { readonly paths: Record<string, Record<string, Json>>; readonly components: Json };
const ids: string[] = [];
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
});
afterAll(() => fleet.stop());

function operations(): FuzzedOperation[] {
  return Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, { parameters = [], requestBody }]) => ({
      method: method.toUpperCase(),
      path,
      parameters: parameters as Parameter[],
      body: Object.values(((requestBody as Json | undefined)?.content ?? {}) as Record<string, Json>)[0]
        ?.schema as Json | undefined,
    })),
  );
}

/** Values of a schema, and now and then any other value. */
function valuesOf(schema: Json, name: string, depth = 0): fc.Arbitrary<unknown> {
  const meant = meantValues(schema, name, depth);
  return fc.oneof({ weight: 12, arbitrary: meant }, { weight: 1, arbitrary: fc.jsonValue({ maxDepth: 2 }) });
}

function meantValues(given: Json, name: string, depth: number): fc.Arbitrary<unknown> {
  const schema = resolved(given);
  if (/(checkpoint|parent|child|handoff)_id$/.test(name)) return fc.constantFrom(...ids, uuidv7());
  if (name === "task_id" || name === "mission_id") return fc.constantFrom(...TASKS, "fuzz-4");
  if (Array.isArray(schema.enum)) return fc.constantFrom(...schema.enum);
  if (schema.const !== undefined) return fc.constant(schema.const);
  const options = (schema.anyOf ?? schema.oneOf) as Json[] | undefined;
  if (options !== undefined) return fc.oneof(...options.map((option) => meantValues(option, name, depth)));
  switch (schema.type) {
    case "integer":
      return fc.oneof(fc.integer({ min: -1, max: 20 }), fc.maxSafeInteger());
    case "number":
      return fc.double({ noNaN: true });
    case "boolean":
      return fc.boolean();
    case "string":
      return fc.oneof(
        fc.string({ unit: "binary", maxLength: 30 }),
        fc.stringMatching(/^[a-z0-9-]{1,20}$/),
        fc.constant(new Date().toISOString()),
      );
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

function objectsOf({ properties = {}, required = [] }: Json, depth: number): fc.Arbitrary<Json> {
  const members = Object.entries(properties as Record<string, Json>).map(([name, schema]) => {
    const values = valuesOf(schema, name, depth + 1);
    const always = (required as string[]).includes(name);
    // A missing required member is a request as well.
    return [name, fc.option(values, { nil: undefined, freq: always ? 30 : 2 })] as const;
  });
  return fc.record(Object.fromEntries(members)) as fc.Arbitrary<Json>;
}

function resolved(schema: Json): Json {
  if (typeof schema.$ref !== "string") return schema;
  const steps = schema.$ref.slice(2).split("/");
  return steps.reduce((at: Json, step) => at[step] as Json, document as unknown as Json);
}

function requestsOf({ method, path, parameters, body }: FuzzedOperation): fc.Arbitrary<FuzzedRequest> {
  const given = fc.tuple(
    ...parameters.map(({ name, required, schema }) =>
      fc.option(valuesOf(schema, name), { nil: undefined, freq: required ? 1_000 : 2 }),
    ),
  );
  const bodies =
    body === undefined
      ? fc.constant(undefined)
      : fc.oneof({ weight: 20, arbitrary: valuesOf(body, "") }, { weight: 1, arbitrary: fc.string() });
  return fc.tuple(given, bodies).map(([values, content]) => {
    let target = path;
    const query = new URLSearchParams();
    const headers: Record<string, string> = { "content-type": "application/json" };
    parameters.forEach((parameter, i) => {
      const value = values[i];
      const text = typeof value === "string" ? value : JSON.stringify(value);
      if (parameter.in === "path")
        target = target.replace(
          `{${parameter.name}}`,
          encodeURIComponent((text ?? "x").toWellFormed()) || "x",
        );
      else if (text !== undefined && parameter.in === "query") query.append(parameter.name, text);
      else if (text !== undefined && /^[\x20-\x7e]*$/.test(text)) headers[parameter.name] = text;
    });
    const search = query.size > 0 ? `?${query}` : "";
    return {
      method,
      path: target + search,
      headers,
      body: content === undefined ? undefined : JSON.stringify(content),
    };
  });
}

test("no request of the document's forms is a fault, and the scrub finds no damage afterwards", async () => {
  const all = operations();
  const requests = fc.constantFrom(...all).chain(requestsOf);
  await fc.assert(
    fc.asyncProperty(requests, async ({ method, path, headers, body }) => {
      const answer = await fetch(fleet.gatewayUrl() + path, {
        method,
        headers: { ...headers, authorization: `Bearer ${client.key}` },
        ...(body !== undefined && { body }),
      });
      const text = await answer.text();
      if (answer.status === 503) expect(answer.headers.get("retry-after")).not.toBeNull();
      // A loaded machine may miss the deadline of an answer.
      else if (answer.status !== 504) expect(answer.status, text).toBeLessThan(500);
      if (answer.status >= 400) expect(JSON.parse(text)).toMatchObject({ status: answer.status });
    }),
    { numRuns: RUNS, endOnFailure: true },
  );
  const { requested_pass: pass } = (await client.post("/scrub")).body as { requested_pass: number };
  const last = async () => ((await client.get("/scrub")).body.last as { pass: number } | null)?.pass ?? 0;
  await expect.poll(last, { timeout: 60_000 }).toBeGreaterThanOrEqual(pass);
  expect((await client.get("/scrub/findings")).body.findings).toEqual([]);
}, 240_000);
