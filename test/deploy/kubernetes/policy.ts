/** The rules that every pod of the manifests follows. */
import { EXPOSED_KEY_MODE } from "../../../shared/protocol/signing-keys.ts";
import { containersOf, type Workload } from "./manifests.ts";
import { nameOf } from "./schema.ts";

/** FoundationDB's operator mounts what its containers write, and chooses their images by the version. */
const OF_THE_OPERATOR = "FoundationDBCluster";

/** Returns one line for each violation. */
export function violations(workload: Workload): string[] {
  const { pod, resource } = workload;
  const isOperators = resource.kind === OF_THE_OPERATOR;
  const own = [
    pod.securityContext?.runAsNonRoot === true && (pod.securityContext.runAsUser ?? 0) > 0
      ? ""
      : "runs as root",
    pod.securityContext?.seccompProfile?.type === "RuntimeDefault" ? "" : "has no profile of system calls",
    pod.hostNetwork || pod.hostPID ? "is in a namespace of its node" : "",
    pod.volumes?.some(({ hostPath }) => hostPath !== undefined) ? "mounts a folder of its node" : "",
    pod.enableServiceLinks === false ? "" : "gets a variable for each Service",
    pod.automountServiceAccountToken !== undefined ? "" : "may have a token of the cluster by default",
  ];
  const inside = containersOf(workload).flatMap(({ name, image, resources, securityContext }) => {
    const problems = [
      isOperators ? "" : imageProblem(image),
      resources?.limits?.cpu && resources.limits.memory ? "" : "has no limits",
      resources?.requests?.cpu && resources.requests.memory ? "" : "has no requests",
      securityContext?.allowPrivilegeEscalation === false && !securityContext.privileged
        ? ""
        : "may get rights",
      securityContext?.capabilities?.drop?.includes("ALL") && !securityContext.capabilities.add
        ? ""
        : "keeps capabilities",
      isOperators || securityContext?.readOnlyRootFilesystem === true ? "" : "can write to its image",
    ];
    return problems.filter(Boolean).map((problem) => `${name} ${problem}`);
  });
  return [...own.filter(Boolean), ...inside].map((problem) => `${nameOf(resource)}: ${problem}`);
}

function imageProblem(image = ""): string {
  const tag = /(?::([^:/@]+))?(?:@sha256:[0-9a-f]{64})?$/.exec(image)?.[1];
  if (tag === undefined && !image.includes("@sha256:")) return `has the image ${image} without a tag`;
  return tag === "latest" ? `has the image ${image}, which changes` : "";
}

/** The problems of a pod that must sign what it commits. */
export function signingProblems({ pod, resource }: Workload): string[] {
  const volume = pod.volumes?.find(({ secret }) => secret?.secretName === "signing-key");
  const problems = pod.containers.map(({ env = [], volumeMounts = [] }) => {
    const path = env.find(({ name }) => name === "FLEET_SIGNING_KEY")?.value ?? "";
    const mount = volumeMounts.find(({ name }) => name === volume?.name);
    if (mount === undefined || path !== `${mount.mountPath}/signing-key.pem`) return "has no signing key";
    return mount.subPath === undefined ? "" : "does not see the next signing key";
  });
  const mode = volume?.secret?.defaultMode ?? 0o644;
  const exposed = (mode & EXPOSED_KEY_MODE) === 0 ? "" : "others can read the signing key";
  return [...problems, exposed].filter(Boolean).map((problem) => `${nameOf(resource)}: ${problem}`);
}
