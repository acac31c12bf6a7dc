// What the text of the Dockerfile promises, also where no container engine answers.

import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { projectRoot } from "../../harness/project-root.ts";
import { BASE_IMAGES, buildVariables, dockerfile } from "./image-build.ts";

const variables = buildVariables({});
const manifest = JSON.parse(readFileSync(join(projectRoot, "package.json"), "utf8"));
/** The stage that becomes the image. */
const last = dockerfile.slice(dockerfile.lastIndexOf("\nFROM "));

test("every base image has a pinned version", () => {
  const bases = [...dockerfile.matchAll(/^FROM (\S+)/gm)].map(([, base]) => base);
  expect(new Set(bases)).toEqual(new Set(BASE_IMAGES.map((name) => `\${${name}}`)));
  for (const name of BASE_IMAGES) expect(variables.get(name)).toMatch(/:v?\d+\.\d+\.\d+(-\w+)*$/);
  expect(variables.get("NODE_IMAGE")).toMatch(new RegExp(`^node:${manifest.devDependencies.node}-`));
  expect(variables.get("FDB_IMAGE")).toContain(`:${variables.get("FDB_VERSION")}`);
});

test("FoundationDB has one version in the whole project", () => {
  const version = variables.get("FDB_VERSION");
  expect(version).toMatch(/^7\.3\.\d+$/);
  for (const path of [
    "docker-compose.yml",
    "deploy/kubernetes/overlays/small/foundationdb.yaml",
    "deploy/kubernetes/overlays/production/foundationdb-cluster.yaml",
  ]) {
    const text = readFileSync(join(projectRoot, path), "utf8");
    const named = [...text.matchAll(/foundationdb:(\d+\.\d+[\w.]*)|^ {2}version: (\S+)$/gm)].map(
      ([, tag, own]) => tag ?? own,
    );
    expect([...new Set(named)], path).toEqual([version]);
  }
});

test("no processor is named, so the image can be built for several", () => {
  expect(dockerfile).not.toMatch(/amd64|x86_64|--platform/);
});

test("the image runs without root, has a health check and labels", () => {
  expect(last).toMatch(/^USER 1000:1000$/m);
  expect(last.indexOf("USER ")).toBeLessThan(last.indexOf("CMD ["));
  const [, path = ""] = /^HEALTHCHECK .*CMD \["bash", "\/app\/([^"]+)"\]$/m.exec(last) ?? [];
  expect(existsSync(join(projectRoot, path)), path).toBe(true);
  expect(last).toContain(`org.opencontainers.image.version="${manifest.version}"`);
  expect(last).toContain('fleet.sbom="/app/sbom.cdx.json"');
  expect(last).not.toMatch(/npm (ci|install)|apt-get/);
});
