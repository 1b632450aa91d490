# The first process of a container, run as root in its own namespaces. $1 is the file of settings that the engine wrote.
set -euo pipefail
. "$1"

# Creates a folder of the image: path, owner, mode.
folder() {
  mkdir -p "$root$1"
  chown "$2" "$root$1"
  chmod "$3" "$root$1"
}

# As in runc: the mode of an existing folder is kept; its owner is not, unless the options set it.
tmpfs() {
  local mode=1777
  if [ -d "$root$1" ]; then mode=$(stat -c %a "$root$1"); fi
  mkdir -p "$root$1"
  mount -t tmpfs -o "nosuid,nodev,noexec,mode=$mode${2:+,$2}" tmpfs "$root$1"
}

bind() {
  if [ -d "$1" ]; then
    mkdir -p "$root$2"
    mount --rbind "$1" "$root$2"
  else
    mkdir -p "$(dirname "$root$2")"
    touch "$root$2"
    mount --bind "$1" "$root$2"
  fi
  if [ "$3" = ro ]; then mount -o remount,bind,ro "$root$2"; fi
}

mount --make-rprivate /
mkdir -p "$root"
mount -t tmpfs -o mode=0755 root "$root"
mkdir -p "$root"/{dev,etc,home,proc,root,run,sys,usr,var}
for top in bin lib lib64 sbin; do
  if [ -e "$image/usr/$top" ]; then ln -s "usr/$top" "$root/$top"; fi
done
ln -s ../run "$root/var/run"
# World-writable folders of a Debian image.
for path in /tmp /var/tmp /run/lock; do folder "$path" 0:0 1777; done

mount -t proc -o nosuid,nodev,noexec proc "$root/proc"
mount -t sysfs -o ro,nosuid,nodev,noexec sysfs "$root/sys"
mount -t tmpfs -o nosuid,mode=0755 dev "$root/dev"
for device in null zero full random urandom; do
  touch "$root/dev/$device"
  mount --bind "/dev/$device" "$root/dev/$device"
done
ln -s /proc/self/fd "$root/dev/fd"
mkdir "$root/dev/shm"
mount -t tmpfs -o "nosuid,nodev,noexec,mode=1777,size=$shm" shm "$root/dev/shm"

bind "$image/usr" /usr ro
cp -a "$image/etc/." "$root/etc/"
printf 'nameserver %s\noptions ndots:0\n' "$gateway" > "$root/etc/resolv.conf"
printf '127.0.0.1 localhost\n::1 localhost\n%s %s\n' "$address" "$host" > "$root/etc/hosts"
mounts
if [ "$read_only" = 1 ]; then mount -o remount,ro "$root"; fi

hostname "$host"
# The engine writes a line once the network link exists.
read -r _
ip link set lo up
ip link set "$link" name eth0
ip addr add "$address/24" dev eth0
ip link set eth0 up
ip route add default via "$gateway"
ulimit -Hn "$hard_files"
ulimit -Sn "$files"

if [ "$init" = 0 ]; then exec "${enter[@]}" "${command[@]}"; fi
"${enter[@]}" "${command[@]}" <&0 &
child=$!
trap 'kill -TERM "$child" 2>/dev/null || true' TERM
# A signal interrupts the wait, not the child.
while kill -0 "$child" 2>/dev/null; do wait "$child" || true; done
wait "$child"
