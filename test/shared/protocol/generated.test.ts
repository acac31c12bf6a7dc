// The committed files are those that `npm run generate` writes, and the AsyncAPI document is complete: every
// reference resolves, and every subject and stream is that of the code.

import { existsSync, readdirSync, readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { parse } from "yaml";
import { fleetStreams } from "../../../shared/bus/streams/streams.ts";
import { ALERT_TYPES } from "../../../shared/protocol/alerts.ts";
import { EVENT_TYPES } from "../../../shared/protocol/events.ts";
import { asyncApi } from "../../../shared/protocol/generate/asyncapi.ts";
import { generated, PROTOCOL_FOLDER } from "../../../shared/protocol/generate/generate.ts";
import { jsonText, yamlText } from "../../../shared/protocol/generate/layout.ts";
import { jsonSchemas } from "../../../shared/protocol/generate/schemas.ts";
import { STREAM_FACTS } from "../../../shared/protocol/generate/stream-facts.ts";
import { COMMAND_OPS, QUERY_OPS, QUEUED_OPS } from "../../../shared/protocol/operations.ts";
import { SUBJECTS } from "../../../shared/protocol/subjects.ts";

type Tree = Record<string, unknown>;

const files = generated();
const document = asyncApi() as { channels: Record<string, Tree>; operations: Record<string, Tree> };

describe("generated files", () => {
  test.each([...files.keys()])("%s is up to date (npm run generate)", (path) => {
    const url = new URL(path, PROTOCOL_FOLDER);
    expect(existsSync(url)).toBe(true);
    expect(readFileSync(url, "utf8")).toBe(files.get(path));
  });

  test("no file is left over", () => {
    const present = readdirSync(new URL("schemas/", PROTOCOL_FOLDER)).map((name) => `schemas/${name}`);
    expect(present.filter((path) => !files.has(path))).toEqual([]);
  });
});

function references(value: unknown): string[] {
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([key, member]) =>
    key === "$ref" ? [member as string] : references(member),
  );
}

describe("AsyncAPI", () => {
  test.each([...new Set(references(document))])("%s resolves", (reference) => {
    if (reference.startsWith("./")) {
      expect(files.has(reference.slice(2))).toBe(true);
    } else {
      const steps = reference.slice(2).split("/");
      expect(steps.reduce((at: unknown, step) => (at as Tree | undefined)?.[step], document)).toBeDefined();
    }
  });

  test("has every command, query, event and alert, and the queue group and answers of each request", () => {
    const names = [
      ...COMMAND_OPS.map((op) => `command.${op}`),
      ...QUEUED_OPS.map((op) => `queue.${op}`),
      ...QUERY_OPS.map((op) => `query.${op}`),
      ...EVENT_TYPES.map((type) => `event.${type}`),
      ...ALERT_TYPES.map((type) => `alert.${type}`),
      "offer",
      "heartbeat",
      "exit",
      "dead",
      "access.agent_credentials",
      "command.acknowledge.agent",
    ];
    expect(Object.keys(document.operations).sort()).toEqual(names.sort());
    for (const [name, operation] of Object.entries(document.operations)) {
      if (/^(event\.|alert\.|offer$|dead$)/.test(name)) expect(operation.action).toBe("send");
      else if (name.startsWith("queue.") || ["heartbeat", "exit"].includes(name))
        expect(operation.action).toBe("receive");
      else {
        const services: Record<string, string> = { command: "writer", query: "reader", access: "signer" };
        const queue = services[name.split(".")[0]!];
        expect(operation).toMatchObject({ action: "receive", bindings: { nats: { queue } } });
        expect((operation.reply as { messages: unknown[] }).messages).toHaveLength(
          QUEUED_OPS.some((op) => name === `command.${op}`) ? 3 : 2,
        );
      }
    }
  });

  test("addresses are the code's subjects", () => {
    const address = (name: string) => document.channels[name]?.address;
    expect(address("command.create")).toBe("fleet.cmd.{tenant}.{agent_id}.{task_id}.create");
    expect(address("query.by_agent")).toBe("fleet.query.{tenant}.{caller_id}.by_agent");
    expect(address("event.AGENT_HANDOFF")).toBe("fleet.event.{tenant}.AGENT_HANDOFF.{task_id}");
    expect(address("queue.create")).toBe("fleet.queue.{tenant}.{agent_id}.{task_id}.create");
    expect(address("command.acknowledge.agent")).toBe(
      "fleet.cmd.{tenant}.{runner_id}.{task_id}.acknowledge.{new_agent_id}",
    );
    expect(address("access.agent_credentials")).toBe("fleet.access.{tenant}.{runner_id}.agent_credentials");
    const filled = String(address("command.link")).replaceAll(/\{\w+\}/g, "x");
    expect(filled).toBe(SUBJECTS.command("x", "x", "x", "link"));
  });

  test("streams are those that the services create", () => {
    const facts = fleetStreams().map((stream) => [
      stream.name,
      {
        subjects: stream.subjects,
        max_age_ms: stream.maxAgeMs,
        max_bytes: stream.maxBytes,
        retention: stream.retention,
        storage: stream.storage,
        discard: stream.discard,
        max_message_bytes: stream.maxMessageBytes,
        duplicate_window_ms: stream.duplicateWindowMs,
        allow_atomic: stream.atomic,
        ...(stream.maxPerSubject !== undefined && { max_messages_per_subject: stream.maxPerSubject }),
        ...(stream.storedAs && { subject_transform: stream.storedAs.to }),
      },
    ]);
    expect(STREAM_FACTS).toEqual(Object.fromEntries(facts));
  });
});

describe("JSON Schemas", () => {
  test("references lead to another schema", () => {
    for (const schema of jsonSchemas().values()) {
      for (const reference of references(schema))
        expect(files.has(`schemas/${reference.slice(2)}`)).toBe(true);
    }
  });

  test("schemas with code are expressed in terms that a validator knows", () => {
    const input = jsonSchemas().get("checkpoint-input.json") as {
      properties: Record<string, { properties: Tree }>;
    };
    const stored = jsonSchemas().get("checkpoint.json") as typeof input;
    expect(input.properties.metadata?.properties.checkpoint_id).toMatchObject({
      pattern: expect.stringContaining("chk-"),
    });
    expect(stored.properties.metadata?.properties.checkpoint_id).toMatchObject({
      pattern: expect.not.stringContaining("chk-"),
    });
    expect(input.properties.execution_state?.properties.phase).toMatchObject({
      enum: expect.arrayContaining(["verification"]),
    });
    expect(stored.properties.execution_state?.properties.phase).toMatchObject({
      enum: expect.not.arrayContaining(["verification"]),
    });
    expect(input.properties.execution_state?.properties.pending_items).toMatchObject({
      items: { anyOf: [{ type: "object" }, { type: "string" }] },
    });
    expect(stored.properties.execution_state?.properties.pending_items).toMatchObject({
      items: { type: "object" },
    });
  });

  test("further members are allowed everywhere, so that older clients accept newer servers", () => {
    for (const [file, schema] of jsonSchemas())
      if (!file.startsWith("settings-"))
        expect([file, JSON.stringify(schema)]).toEqual([
          file,
          expect.not.stringContaining('"additionalProperties":false'),
        ]);
  });

  test("a settings file may name its schema, and an editor finds misspelt names in it", () => {
    for (const name of ["policy", "runner", "signer"]) {
      const schema = jsonSchemas().get(`settings-${name}.json`) as { properties: object };
      expect(schema).toMatchObject({
        properties: { $schema: { type: "string" } },
        additionalProperties: false,
      });
    }
    expect(jsonSchemas().get("settings-webhooks.json")).toMatchObject({
      type: "array",
      items: { additionalProperties: false },
    });
  });
});

describe("layout", () => {
  test("YAML text is YAML, with each value on one line, and without aliases", () => {
    const shared = { "a: b": "1.0" };
    const value = { a: [shared, shared], b: "long text ".repeat(30).trim(), c: ["true", null, {}, []] };
    expect(parse(yamlText(value))).toEqual(value);
    expect(yamlText(value).split("\n")).toHaveLength(10);
  });

  test("JSON text is JSON, with short lists on one line and long ones on many", () => {
    const value = { a: [1, "x"], b: Array.from({ length: 40 }, (_, i) => `item ${i}`), c: [{}], d: [] };
    expect(JSON.parse(jsonText(value))).toEqual(value);
    expect(jsonText(value)).toContain('"a": [1, "x"],\n');
    for (const line of jsonText(value).split("\n")) expect(line.length).toBeLessThanOrEqual(110);
  });
});
