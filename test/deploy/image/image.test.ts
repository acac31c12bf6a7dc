// The image, built and run by a container engine with the restrictions of docker-compose.yml.

import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { docker } from "../../harness/containers/engine.ts";
import { projectRoot } from "../../harness/project-root.ts";
import { buildImage, buildVariables, missingBuild } from "./image-build.ts";

const BUILD_MS = 900_000;
const START_MS = 180_000;
const missing = await missingBuild();
if (missing !== undefined) process.stderr.write(`image: not built, because ${missing}\n`);

const name = `fleet-test-${randomUUID()}`;
const tag = `${name}:test`;
const CLOSED = ["--read-only", "--cap-drop=ALL", "--security-opt=no-new-privileges:true", "--tmpfs=/tmp"];
const run = (...command: string[]) => docker(["run", "--rm", ...CLOSED, tag, ...command]);
const inspect = async (format: string) => (await docker(["inspect", "--format", format, name])).trim();

describe.skipIf(missing !== undefined)("the image", () => {
  beforeAll(() => buildImage(tag), BUILD_MS);
  afterAll(async () => {
    await docker(["rm", "--force", "--volumes", name]).catch(() => {});
    await docker(["volume", "rm", "--force", name]).catch(() => {});
    await docker(["image", "rm", "--force", tag]).catch(() => {});
  }, START_MS);

  test("runs as a user without rights, who cannot change it", async () => {
    expect((await run("id", "-u")).trim()).toBe("1000");
    const files = await run(
      "find",
      "/app",
      "/usr/local/bin",
      "/usr/lib/libfdb_c.so",
      "-writable",
      "-not",
      "-type",
      "l",
    );
    expect(files.trim()).toBe("");
  });

  test("says what it is", async () => {
    const labels = JSON.parse(await docker(["image", "inspect", "--format", "{{json .Config.Labels}}", tag]));
    const { version } = JSON.parse(readFileSync(join(projectRoot, "package.json"), "utf8"));
    expect(labels).toMatchObject({
      "org.opencontainers.image.title": "Fleet",
      "org.opencontainers.image.version": version,
      "org.opencontainers.image.base.name": buildVariables().get("NODE_IMAGE"),
      "fleet.sbom": "/app/sbom.cdx.json",
    });
  });

  test("its parts list names what is in it", async () => {
    const { components } = JSON.parse(await run("cat", "/app/sbom.cdx.json")) as {
      components: { name: string; version: string; purl?: string }[];
    };
    const found = new Map(components.map((one) => [one.name, one.version]));
    expect(`v${found.get("node")}`).toBe((await run("node", "--version")).trim());
    expect(await run("nats-server", "--version")).toContain(found.get("nats-server"));
    expect(found.get("libfdb_c")).toBe(buildVariables().get("FDB_VERSION"));
    const list =
      "find /app/node_modules -name package.json -path '*node_modules/*' -not -path '*/fleet-image/*'";
    const installed = (await run("sh", "-c", `${list} -exec grep -l '"version"' {} +`))
      .split("\n")
      .filter(Boolean);
    const names = new Set(
      installed.flatMap(
        (path) => /\/node_modules\/((?:@[^/]+\/)?[^/]+)\/package\.json$/.exec(path)?.[1] ?? [],
      ),
    );
    expect([...names].filter((one) => !found.has(one))).toEqual([]);
    expect(names.has("vitest")).toBe(false);
  });

  test("has the client of FoundationDB, in the pinned version", async () => {
    const program =
      'const { loadClient } = await import("/app/shared/store/foundationdb/client.ts"); await loadClient(); console.log("loaded")';
    expect((await run("node", "--input-type=module", "--eval", program)).trim()).toBe("loaded");
  });

  test("becomes healthy on a read-only root, keeps its data, and stops in time", {
    timeout: START_MS,
  }, async () => {
    await docker(["run", "--detach", "--init", "--name", name, ...CLOSED, "--volume", `${name}:/data`, tag]);
    const health = () => inspect("{{.State.Health.Status}}");
    await expect.poll(health, { timeout: START_MS / 2, interval: 500 }).toBe("healthy");
    const fleet = (...args: string[]) => docker(["exec", name, "node", "deploy/local/fleet.mjs", ...args]);
    const create =
      "checkpoint create --task in-a-container --type implementation --phase testing --pending more -q";
    const id = (await fleet(...create.split(" "))).trim();
    expect(id).toMatch(/^chk-[0-9a-f-]{36}$/);
    await docker(["stop", "--time", "30", name]);
    expect(await inspect("{{.State.ExitCode}} {{.State.OOMKilled}}")).toBe("0 false");
    await docker(["start", name]);
    await expect.poll(health, { timeout: START_MS / 2, interval: 500 }).toBe("healthy");
    expect(await fleet("checkpoint", "show", id)).toContain("in-a-container");
  });
});
