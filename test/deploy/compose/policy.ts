/** The rules that every container of docker-compose.yml follows. */
import { type ComposeFile, type ComposeService, mountsOf } from "./compose-file.ts";

/** Programs that end. */
const ENDS = new Set(["init", "database"]);
/** They commit to the store, and put the next key beside the present one. */
const SIGNS = new Set(["writer", "reader", "coordinator", "watchdog"]);
/** Its image has no program that could ask; Prometheus reads its metrics. */
const UNCHECKED = new Set(["collector"]);
/** The image of the project has a user without rights and a health check (test/deploy/image/dockerfile.test.ts). */
const isOwnImage = ({ image }: ComposeService): boolean => image.startsWith("fleet:");

/** One line for each violation. */
export const composeViolations = (file: ComposeFile): string[] =>
  Object.entries(file.services).flatMap(([name, service]) =>
    [
      ...rights(service),
      ...robustness(name, service),
      ...places(name, service),
      ...starts(file, service),
      signsWith(name, service),
    ]
      .filter(Boolean)
      .map((problem) => `${name}: ${problem}`),
  );

function rights(service: ComposeService): string[] {
  const { user, image, cap_drop = [], security_opt = [] } = service;
  const [, tag] = /:([^:/]+)$/.exec(image) ?? [];
  return [
    tag === undefined || !/\d/.test(tag) || tag === "latest" ? `has the image ${image}, which changes` : "",
    isOwnImage(service) || /^[1-9]\d*:\d+$/.test(user ?? "") ? "" : "runs as root",
    isOwnImage(service) && user !== undefined ? "has another user than its image" : "",
    service.read_only === true ? "" : "can write to its image",
    cap_drop.includes("ALL") && service.cap_add === undefined ? "" : "keeps capabilities",
    security_opt.includes("no-new-privileges:true") && service.privileged !== true ? "" : "may get rights",
    service.network_mode !== undefined || service.pid !== undefined ? "is in a namespace of the host" : "",
  ];
}

function robustness(name: string, { deploy, healthcheck, ...service }: ComposeService): string[] {
  // Without a limit of processors: the engine refuses one that is above the number of the machine.
  const limits = deploy?.resources?.limits;
  const isChecked = healthcheck === undefined ? isOwnImage(service) : healthcheck.test !== undefined;
  return [
    limits?.memory === undefined ? "has no limit of memory" : "",
    service.stop_grace_period === undefined ? "may be cut off when it stops" : "",
    isChecked || ENDS.has(name) || UNCHECKED.has(name) ? "" : "has no health check",
    service.restart === "unless-stopped" || ENDS.has(name) ? "" : "does not start again",
  ];
}

/** A volume NAME-access is for the service NAME; that of the three servers is for all of them. */
function places(name: string, service: ComposeService): string[] {
  const ports = (service.ports ?? []).filter((port) => !port.startsWith("127.0.0.1:"));
  return [
    ...ports.map((port) => `publishes ${port} beyond this machine`),
    ...mountsOf(service).flatMap(({ source, readOnly }) => {
      if (source.startsWith("/") || source.startsWith("..")) return [`mounts ${source} of the host`];
      if (source.startsWith(".")) return readOnly ? [] : [`can write to ${source}`];
      if (source === "signing-key")
        return name === "init" || SIGNS.has(name) ? [] : ["mounts the signing key"];
      const [, owner] = /^(.*)-access$/.exec(source) ?? [];
      if (name === "init" || (owner === undefined && source !== "keys")) return [];
      const isOwn = owner === name || (owner === "nats" && /^nats-\d$/.test(name));
      return [isOwn ? "" : `mounts ${source} of another service`, readOnly ? "" : `can write to ${source}`];
    }),
  ];
}

function signsWith(name: string, service: ComposeService): string {
  const path = String(service.environment?.FLEET_SIGNING_KEY ?? "");
  if (!SIGNS.has(name)) return path === "" ? "" : "names a signing key";
  const volume = mountsOf(service).find(({ source }) => source === "signing-key");
  if (volume === undefined || !path.startsWith(`${volume.target}/`)) return "has no signing key";
  return volume.readOnly ? "cannot make its next signing key" : "";
}

function starts({ services }: ComposeFile, { depends_on = {} }: ComposeService): string[] {
  return Object.entries(depends_on).map(([other, { condition }]) => {
    if (services[other] === undefined) return `waits for ${other}, which does not exist`;
    if (condition === "service_completed_successfully" && !ENDS.has(other))
      return `waits for the end of ${other}`;
    if (condition === "service_healthy" && (ENDS.has(other) || UNCHECKED.has(other)))
      return `waits for the health of ${other}, which has no check`;
    return "";
  });
}
