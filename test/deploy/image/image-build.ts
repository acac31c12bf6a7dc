/** The image of the services, built as the documents say. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { docker, missingEngine, missingImages } from "../../harness/containers/engine.ts";
import { projectRoot } from "../../harness/project-root.ts";

export const dockerfile = readFileSync(join(projectRoot, "deploy/Dockerfile"), "utf8");

/** The variables of the build with their defaults. The environment of the tests may name other images. */
export function buildVariables(env: NodeJS.ProcessEnv = process.env): Map<string, string> {
  const found = new Map<string, string>();
  for (const [, name = "", value = ""] of dockerfile.matchAll(/^ARG (\w+)=(.*)$/gm)) {
    const filled = value.replace(/\$\{(\w+)\}/g, (_, other: string) => found.get(other) ?? "");
    found.set(name, env[name] ?? filled.replace(/^""$/, ""));
  }
  return found;
}

export const BASE_IMAGES = ["NODE_IMAGE", "NATS_IMAGE", "FDB_IMAGE"] as const;

/** The reason why the image cannot be built here, in one line. */
export async function missingBuild(): Promise<string | undefined> {
  const engine = await missingEngine();
  if (engine !== undefined) return engine;
  const variables = buildVariables();
  const missing = await missingImages(BASE_IMAGES.map((name) => variables.get(name) ?? ""));
  return missing.length === 0 ? undefined : `no image ${missing.join(", ")}`;
}

export async function buildImage(tag: string): Promise<void> {
  const given = ["NODE_IMAGE", "NATS_IMAGE", "FDB_IMAGE", "FDB_VERSION", "NPM_CONFIG_REGISTRY"] as const;
  const args = given.flatMap((name) =>
    process.env[name] === undefined ? [] : ["--build-arg", `${name}=${process.env[name]}`],
  );
  await docker(["build", "--file", "deploy/Dockerfile", ...args, "--tag", tag, "."]);
}
