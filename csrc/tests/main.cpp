#include "shaders.hpp"
#include "kpx.h"
#include <cstdio>
#include <vector>
#include <cstring>
int main() {
  kpx_error e{}; uint32_t n=0; 
  if (kpx_device_count(&n,&e)) { printf("%s\n", e.message); return 1; }
  for (uint32_t i=0;i<n;i++){ kpx_device_info d; kpx_device_describe(i,&d,&e); printf("%s %s %s usable %d %s %llu %llu %llu\n", d.name,d.driver,d.uuid,d.usable,d.why,(unsigned long long)d.memory_total,(unsigned long long)d.memory_available,(unsigned long long)d.max_buffer_bytes);}
  kpx_device*d; if(kpx_device_open(0,0,&d,&e)){printf("%s\n", e.message); return 1;}
  kpx_stream*s; kpx_stream_create(d,&s,&e);
  kpx_buffer*b; if(kpx_buffer_create(d,1000003,&b,&e)){printf("%s\n", e.message); return 1;}
  std::vector<uint8_t> x(1000003),y(1000003); for(size_t i=0;i<x.size();i++)x[i]=uint8_t(i*7+i/256);
  if(kpx_upload(s,b,0,x.data(),x.size(),&e)||kpx_download(s,b,0,y.data(),y.size(),&e)){printf("%s\n", e.message); return 1;}
  printf("%d\n", x==y);
  kpx_buffer_destroy(b); kpx_stream_destroy(s); 
  kpx_device_stats st; kpx_device_get_stats(d,&st); printf("val %llu\n",(unsigned long long)st.validation_messages);
  kpx_device_close(d);
}
